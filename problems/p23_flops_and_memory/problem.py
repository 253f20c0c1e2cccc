"""Problem 23: the parameters, operations and bytes of a GPT."""

from collections.abc import Mapping
from typing import Any

from grader.problem import Cases, Check, Entry, Problem, Tolerance

SIZES = ("vocab_size", "context", "d_model", "d_ff", "num_layers")
# Whole numbers below 2^53 are exact in float64, and a quotient of floats is right up to its last bits.
LAST_BITS = Tolerance(rtol=1e-12, atol=0.0)


def gpt(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {
        "vocab_size": sizes["V"],
        "context": sizes["T"],
        "d_model": sizes["D"],
        "d_ff": sizes["F"],
        "num_layers": sizes["L"],
        "tokens_per_second": float(rng.integers(1000, 9000)),
        "peak_flops": float(rng.integers(1, 900)) * 1e12,
    }


PROBLEM = Problem(
    title="Counting: parameters, operations, bytes",
    builds_on=(6,),
    entries=(
        Entry("count_parameters", SIZES),
        Entry("forward_flops_per_token", SIZES),
        Entry("training_flops_per_token", SIZES),
        Entry("training_bytes", SIZES),
        Entry("utilization", ("tokens_per_second", "peak_flops", *SIZES), formerly="utilisation"),
    ),
    cases={
        # No size is 1 or 4 times another, so that no two formulas agree. Counts with a large D are not exact in float32.
        "cases": Cases(
            gpt, {"V": (11, 50257), "T": (5, 1025), "D": (2, 4099, 5003), "F": (7, 2049), "L": (3, 13)}, draws=10
        )
    },
    checks=(
        Check("parameters", 2, "counting", leaves="count_parameters", tolerance=LAST_BITS),
        Check("forward operations", 2, "counting", leaves="forward_flops_per_token", tolerance=LAST_BITS),
        Check("training operations", 1, "counting", leaves="training_flops_per_token", tolerance=LAST_BITS),
        Check("training bytes", 1, "counting", leaves="training_bytes", tolerance=LAST_BITS),
        Check("utilization", 1, "counting", leaves="utilization", tolerance=LAST_BITS),
    ),
)
