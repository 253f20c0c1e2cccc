"""Problem 59: the logit lens, and how much each head and each neuron adds to a logit."""

from collections.abc import Mapping
from typing import Any

from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

LENS, PARTS = "logit_lens", "logit_parts"


def gpt(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The sizes of a small GPT, token ids (T,), and another token, whose logit is explained.

    The final norm of some models has an epsilon that nobody can overlook.
    """
    V, H, T = sizes["V"], sizes["H"], sizes["T"]
    token_ids = rng.integers(0, V, T)
    return {
        "vocab_size": V,
        "d_model": H * sizes["K"],
        "num_heads": H,
        "d_ff": sizes["F"],
        "num_layers": sizes["L"],
        "context": T + sizes["more"],
        "epsilon": 0.5 if sizes["more"] else 1e-6,
        "token_ids": token_ids.astype("int32"),
        "token_id": ((token_ids[-1:] + rng.integers(1, V, 1)) % V).astype("int32").reshape(()),
    }


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs, with the name of the page for the number of positions."""
    return {"max_T" if name == "context" else name: value for name, value in values.items()}


# A stream of several blocks amplifies rounding errors, and the norm divides by a standard deviation that the biases
# keep small.
LOGITS = Tolerance(rtol=1e-4, atol=1e-4)
# A row of a table of 50,257 tokens is about 0.004 long, and so are the parts of a logit. The lens also divides by the
# standard deviation of three numbers, which is small in some layer of thirteen.
SMALL = Tolerance(rtol=1e-4, atol=4e-6)
SMALL_LENS = Tolerance(rtol=1e-4, atol=2e-5)
# The reference's work is that of one forward pass. Two more of them are allowed. The logits of all tokens for each
# neuron are eight times as much.
WORK = Tolerance(rtol=3.0, atol=0.0, room=2)


def work(case: Case, difference: Difference) -> str:
    return f"one call executes {difference.got} scalar operations; {difference.expected} are allowed"


def parts(name: str, points: int, leaves: str, **more: Any) -> Check:
    return Check(name, points, "attribution", leaves=leaves, **{"tolerance": LOGITS, **more})


PROBLEM = Problem(
    title="The logit lens",
    minutes=100,
    builds_on=(4, 6),
    entries=(
        Entry(LENS, ("model", "token_ids")),
        Entry(PARTS, ("model", "token_ids", "token_id"), returns=("embeddings", "heads", "neurons", "biases")),
    ),
    cases={
        "cases": Cases(
            gpt, {"T": (5, 6), "V": (11, 13), "H": (2,), "K": (4,), "F": (10,), "L": (2,), "more": (2,)},
            draws=1, show=shown
        ),
        "one token": Cases(
            gpt, {"T": (1,), "V": (50_257,), "H": (1,), "K": (3,), "F": (5,), "L": (13,), "more": (0,)},
            draws=1, show=shown,
            covers=("layers", "vocabulary", "coprime", "one"),
        ),
        "large": Cases(
            gpt, {"T": (12,), "V": (300, 290), "H": (2,), "K": (8,), "F": (64,), "L": (2,), "more": (0,)},
            draws=1, show=shown
        ),
    },
    checks=(
        Check("lens", 2, "lens", leaves="lens", tolerance=LOGITS),
        parts("part of the embeddings", 1, "parts.embeddings"),
        parts("part of each head", 2, "parts.heads"),
        parts("part of each neuron", 2, "parts.neurons"),
        parts("part of the biases", 1, "parts.biases"),
        parts("the parts sum to the logit", 2, "total"),
        Check("lens of one token", 1, "lens", leaves="lens", cases="one token", tolerance=SMALL_LENS),
        parts("parts for one token", 1, "parts", cases="one token", tolerance=SMALL),
        Check(
            "work of the "
            "parts", 1, "attribution", leaves="program.work", cases="large", compare="at_most", tolerance=WORK,
            values_tolerance=LOGITS, in_words=work,
            advice="Only one logit is asked for. Compute the direction in the stream that raises it once, (D,), and "
            "multiply each part by that. The logits of all V tokens are not needed.",
        ),
    ),
)  # fmt: skip
