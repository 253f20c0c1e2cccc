"""Problem 18: the loss of a large vocabulary in little memory."""

from collections.abc import Mapping
from typing import Any

from grader.checks import few_parts, memory, output, output_and_gradient
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

LOSS = "chunked_loss"
LARGE = {"T": (321, 305, 337), "D": (3, 2), "V": (4096, 4001, 3907), "pad": (1000, 0, 7)}


def hidden(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    T, D, V, pad_id = (sizes[name] for name in ("T", "D", "V", "pad"))
    token_ids = rng.integers(0, V - 1, T).astype("int32")
    token_ids += token_ids >= pad_id  # any token but the padding
    token_ids[1] = V - 1 if pad_id < V - 1 else V - 2  # the largest id
    token_ids[sizes.get("real", T) :] = pad_id
    return {
        "x": (sizes.get("scale", 1) * rng.standard_normal((T, D))).astype("float32"),
        "embedding": rng.standard_normal((V, D)).astype("float32"),
        "token_ids": token_ids,
        "pad_id": pad_id,
        "chunk": sizes["C"],
    }


def array(case: Case, difference: Difference) -> str:
    T, V = len(case.values["x"]), len(case.values["embedding"])
    which = "computed outside of the loop" if difference.path.endswith("outside_loops") else "of the program"
    return (
        f"with T = {T}, V = {V} and C = {case.values['chunk']}, the largest array {which} has {difference.got} "
        f"numbers; {difference.expected} are allowed, and all logits are {(T - 1) * V}"
    )


# Five times as many numbers as the logits of one chunk, the reference's largest array. All logits have sixty times as
# many.
LOGITS = Tolerance(rtol=4.0, atol=0.0)

PROBLEM = Problem(
    title="A loss in chunks",
    minutes=50,
    builds_on=(7,),
    entries=(Entry(LOSS, ("x", "embedding", "token_ids", "pad_id", "chunk")),),
    cases={
        "cases": Cases(
            hidden, {"T": (7, 9), "D": (3, 4), "V": (5, 6), "C": (1, 3, 2), "pad": (4, 2, 0)}, draws=4, covers=("one",)
        ),
        "remainder": Cases(hidden, {"T": (6, 8), "D": (3,), "V": (5,), "C": (9, 4, 3), "pad": (3, 1, 2)}, draws=3),
        "padded": Cases(
            hidden,
            {"T": (11,), "D": (3,), "V": (50257, 5), "C": (4, 2), "real": (7, 5, 3), "pad": (1, 3, 2), "scale": (97,)},
            draws=2, covers=("vocabulary", "coprime"),
        ),
        "nothing": Cases(hidden, {"T": (5,), "D": (3,), "V": (5,), "C": (2,), "real": (1, 0), "pad": (2, 4, 0)},
            draws=1),
        # Far more chunks than rows in a chunk, and few features: the logits are most of the memory. The same shapes in
        # two chunks: whatever takes few rows at a time turns far more often there. Nothing but `chunk` tells the two
        # apart.
        "large": Cases(hidden, {**LARGE, "C": (5, 4)}, draws=1),
        "few": Cases(hidden, {**LARGE, "C": (170, 180)}, draws=1),
    },
    checks=(
        *output_and_gradient(LOSS, wrt=["x", "embedding"], points=(1, 2)),
        output(LOSS, points=1, name="chunk size does not divide T - 1", cases="remainder"),
        output(LOSS, points=1, name="padding does not count", cases="padded"),
        output(LOSS, points=1, name="nothing to predict gives 0", cases="nothing"),
        memory(
            "chunk", points=1, probe="losses",
            advice="The program of the loss and its gradients holds the logits of many chunks at once. Compute them "
            "inside the body of a `jax.lax.scan`, `chunk` rows at a time, and put `jax.checkpoint` around that body: "
            "then the scan saves only the inputs of the body.",
        ),
        # XLA can compute a product and the sum over it piece by piece, so all logits need not take memory on a CPU.
        Check(
            "no array of all logits", 1, "losses", leaves="program.arrays", cases="large", compare="at_most",
            tolerance=LOGITS, in_words=array,
            advice="An operation returns the logits of many chunks. Compute them `chunk` rows at a time, inside of a "
                "loop.",
        ),
        few_parts(
            "chunks", points=1, probe="losses",
            advice="The loop turns more often than there are chunks, with fewer than `chunk` rows at a time. Small "
            "products leave most of a device idle, so the loss is slow. Reshape the rows to (chunks, `chunk`, D).",
        ),
    ),
    bill="no array of all logits",
)  # fmt: skip
