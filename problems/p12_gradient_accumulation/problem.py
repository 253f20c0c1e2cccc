"""Problem 12: gradient accumulation, a large batch in the memory of a small one."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.checks import few_parts, memory
from grader.problem import Cases, Check, Entry, Problem


def stories(ratio: float, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Right-padded stories of very different lengths, so that microbatches have different numbers of targets: one has
    none.

    The losses are scaled so that the norm is about `ratio` times `max_norm`, which alone does not say whether to clip.
    """
    V, b, T = sizes["V"], sizes["b"], sizes["T"]
    B = sizes["k"] * b
    token_ids = rng.integers(0, V - 1, (B, T)).astype("int32")
    for row, real in enumerate(rng.integers(1, T + 1, B)):
        token_ids[row, real:] = V - 1
    token_ids[[0, -1], :2] = 0  # at least one target in the first microbatch and in the last, or in the other one
    if sizes["k"] > 1:
        empty = sizes.get("empty", 1) * b
        token_ids[empty : empty + b, 1:] = V - 1
    max_norm = sizes["quarters"] / 4
    return {
        "token_ids": token_ids,
        "microbatches": sizes["k"],
        "max_norm": max_norm,
        "loss_scale": ratio * max_norm,
        "vocab_size": V,
        "d_model": 4,
        "d_ff": sizes["F"],
    }


long, short = partial(stories, 20.0), partial(stories, 0.05)
LARGE = {"T": (48, 47, 49), "V": (16,), "F": (32, 31), "quarters": (8,)}
SIZES = {"k": (3, 4), "b": (2, 3), "T": (4, 5), "V": (6,), "F": (3, 5), "quarters": (8,)}
ALL = {"k": (1,), "b": (3,), "T": (5, 13), "V": (11,), "F": (2,), "quarters": (5,)}

PROBLEM = Problem(
    title="Gradient accumulation",
    minutes=55,
    builds_on=(7, 11),
    entries=(
        Entry(
            "accumulated_gradients", ("loss_sum", "parameters", "token_ids", "microbatches", "max_norm"),
            returns=("loss", "gradients", "norm"),
        ),
    ),
    cases={
        "cases": Cases(long, {**SIZES, "quarters": (8, 2)}),
        "short": Cases(short, {**SIZES, "empty": (0,)}, draws=1),  # the first microbatch has no target
        "all": Cases(short, ALL, draws=1, covers=("one", "coprime")),
        # Far more microbatches than rows in each, so that taking one for the other shows in the memory. With one row in
        # each, so does every other number of rows from three. The same batches in few microbatches: whatever takes one
        # row or two at a time turns far more often there. Nothing but `microbatches` tells the two apart.
        "large": Cases(long, {**LARGE, "k": (36, 33), "b": (1,)}, draws=1),
        "few": Cases(long, {**LARGE, "k": (3,), "b": (12, 11)}, draws=1),
    },
    checks=(
        Check("mean loss", 1, "accumulating", leaves="loss"),
        # Without clipping, which hides the length of the gradients.
        Check("mean gradients", 1, "accumulating", leaves="gradients", cases="short"),
        Check("norm before clipping", 1, "accumulating", leaves="norm"),
        Check("clipped gradients", 2, "accumulating", leaves="gradients"),
        Check("one microbatch", 1, "accumulating", cases="all"),
        memory(
            "microbatch", points=2, probe="accumulating",
            advice="The compiled program holds the activations of many microbatches at once. "
            "Take the gradient of each microbatch inside `jax.lax.scan`, and carry only the sums.",
        ),
        few_parts(
            "`microbatches`", points=1, probe="accumulating",
            advice="The loop turns more often than `microbatches`, with fewer rows at a time than B / microbatches. "
            "Small products leave most of a device idle, so such a step is slow. Reshape to `(microbatches, -1, T)`.",
        ),
    ),
    without={"vocabulary": "`loss_sum` is the grader's own: the entry only calls it, and has no axis of the "
        "vocabulary"},
)  # fmt: skip
