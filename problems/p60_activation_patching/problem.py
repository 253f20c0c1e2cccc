"""Problem 60: activation patching, which finds the layers, positions and heads that make the difference between two
texts."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

METRIC, STREAM, HEADS = "logit_difference", "patch_stream", "patch_heads"


def pair(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The sizes of a small GPT, two texts of the same length that differ at a few positions, and two tokens to compare.

    If they do not differ everywhere, the last tokens are equal, so that the streams differ where the tokens do not.
    """
    V, H, T = sizes["V"], sizes["H"], sizes["T"]
    clean = rng.integers(0, V, T)
    corrupted = clean.copy()
    changed = rng.permutation(T if sizes["changed"] >= T else T - 1)[: sizes["changed"]]
    corrupted[changed] = (clean[changed] + rng.integers(1, V, len(changed))) % V
    answer, foil = rng.permutation(V)[:2, None].astype("int32")
    return {
        "vocab_size": V,
        "d_model": H * sizes["K"],
        "num_heads": H,
        "d_ff": sizes["F"],
        "num_layers": sizes["L"],
        "context": T + 2,
        "clean_ids": clean.astype("int32"),
        "corrupted_ids": corrupted.astype("int32"),
        "answer": answer.reshape(()),
        "foil": foil.reshape(()),
    }


def logits(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Logits, (T, V), and two tokens, of which one has the larger logit at the last position and the other one
    before."""
    values = rng.standard_normal((sizes["T"], sizes["V"]))
    answer, foil = rng.permutation(sizes["V"])[:2, None].astype("int32")
    sign = 1 if sizes["larger"] else -1
    values[:, answer] = values[:, foil] - sign * rng.uniform(0.5, 2, (sizes["T"], 1))
    values[-1, answer] = values[-1, foil] + sign * rng.uniform(0.5, 2)
    return {"logits": values.astype("float32"), "answer": answer.reshape(()), "foil": foil.reshape(())}


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs, with the name of problem 59's page for the number of positions."""
    return {"max_T" if name == "context" else name: value for name, value in values.items()}


# A score is a quotient of differences. If the two texts have nearly the same logit difference, the rounding errors of
# both are divided by a small number. They stay a hundred times below an error in the method.
SCORES = Tolerance(rtol=1e-3, atol=1e-3)
# A pass for each pair of a block and a position, written out, has more than ten times as many operations as the
# reference, which has one for each block.
OPERATIONS = Tolerance(rtol=2.0, atol=0.0, room=2)


def operations(case: Case, difference: Difference) -> str:
    return f"the program of one grid has {difference.got} operations; {difference.expected} are allowed"


def grid(name: str, points: int, entry: str, **more: Any) -> Check:
    return Check(name, points, "patching", {"entry": entry}, "scores", tolerance=SCORES, **more)


SIZES = {"T": (5, 7), "V": (11, 13), "H": (2,), "K": (3,), "F": (17,), "L": (2,)}

PROBLEM = Problem(
    title="Activation patching",
    minutes=130,
    builds_on=(6, 59),
    entries=(
        Entry(METRIC, ("logits", "answer", "foil")),
        Entry(STREAM, ("model", "clean_ids", "corrupted_ids", "answer", "foil")),
        Entry(HEADS, ("model", "clean_ids", "corrupted_ids", "answer", "foil")),
    ),
    cases={
        "logits": Cases(logits, {"T": (3,), "V": (5,), "larger": (1, 0)}, draws=2),
        "one "
        "position": Cases(logits, {"T": (1,), "V": (50_257,), "larger": (1,)}, draws=1, covers=("vocabulary", "one")),
        "some tokens": Cases(pair, {**SIZES, "changed": (2,)}, draws=1, show=shown, covers=("coprime",)),
        "all tokens": Cases(pair, {**SIZES, "T": (4,), "H": (3,), "changed": (4,)}, draws=1, show=shown),
        "large": Cases(pair, {**SIZES, "T": (24, 22), "changed": (24,)}, draws=1, show=shown),
    },
    checks=(
        output(METRIC, points=1, name="logit difference", cases="logits"),
        output(METRIC, points=1, name="logit difference of a single position", cases="one position"),
        grid("patched stream", 5, STREAM, cases="some tokens"),
        grid("patched heads", 4, HEADS, cases="all tokens"),
        Check(
            "one program for all "
            "positions", 2, "patching", {"entry": STREAM}, "program.inlined_operations", "large", "at_most",
            OPERATIONS, values_tolerance=SCORES, in_words=operations,
            advice="A loop in Python over the positions writes a whole forward pass into the program for each of them. "
            "Write one for a position t, and run it for all of them with `jax.vmap` or `jax.lax.map`.",
        ),
    ),
    without={
        "layers": "A grid of 12 layers is a program of 78 blocks, which takes seconds to compile. Problem 59 runs 13 "
        "layers of this model.",
    },
)  # fmt: skip
