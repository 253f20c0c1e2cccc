"""Problem 12: gradient accumulation, a large batch in the memory of a small one."""

from collections.abc import Mapping
from typing import Any

from grader.checks import memory
from grader.problem import Cases, Check, Entry, Problem


def stories(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Right-padded stories of very different lengths, so that microbatches have different numbers of targets."""
    V, B, T = sizes["V"], sizes["k"] * sizes["b"], sizes["T"]
    token_ids = rng.integers(0, V - 1, (B, T)).astype("int32")
    for row, real in enumerate(rng.integers(1, T + 1, B)):
        token_ids[row, real:] = V - 1
    token_ids[0, :2] = 0  # at least one target
    return {
        "token_ids": token_ids,
        "microbatches": sizes["k"],
        "max_norm": 0.05,
        "vocab_size": V,
        "d_model": 4,
        "d_ff": sizes["F"],
    }


PROBLEM = Problem(
    title="Gradient accumulation",
    builds_on=(7, 11),
    entries=(
        Entry(
            "accumulated_gradients", ("loss_sum", "parameters", "token_ids", "microbatches", "max_norm"),
            returns=("loss", "gradients", "norm"),
        ),
    ),
    cases={
        "cases": Cases(stories, {"k": (2, 3), "b": (2, 3), "T": (4, 5), "V": (6,), "F": (3, 5)}),
        # Far more microbatches than rows in each, so that taking one for the other shows in the memory.
        "large": Cases(stories, {"k": (24, 22), "b": (3,), "T": (16, 15, 17), "V": (16,), "F": (32, 31)}, draws=1),
    },
    checks=(
        Check("mean loss", 1, "accumulating", leaves="loss"),
        Check("norm before clipping", 1, "accumulating", leaves="norm"),
        Check("clipped gradients", 2, "accumulating", leaves="gradients"),
        memory(
            "microbatch", points=2, probe="accumulating",
            advice="The compiled program holds the activations of many microbatches at once. "
            "Take the gradient of each microbatch inside `jax.lax.scan`, and carry only the sums.",
        ),
    ),
)  # fmt: skip
