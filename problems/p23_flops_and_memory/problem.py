"""Problem 23: what a GPT costs."""

from collections.abc import Mapping
from typing import Any

from grader.problem import Cases, Check, Entry, Problem, Tolerance

SIZES = ("vocab_size", "context", "d_model", "d_ff", "num_layers")
# Whole numbers below 2^53 are exact in float64; a quotient of floats is right to its last bits.
WHOLE = Tolerance(rtol=1e-12, atol=0.0)


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


def look(name: str, points: int, entry: str) -> Check:
    return Check(name, points, "counting", leaves=entry, tolerance=WHOLE)


PROBLEM = Problem(
    title="Counting: parameters, operations, bytes",
    builds_on=(6,),
    entries=(
        Entry("count_parameters", SIZES),
        Entry("forward_flops_per_token", SIZES),
        Entry("training_flops_per_token", SIZES),
        Entry("training_bytes", SIZES),
        Entry("utilisation", ("tokens_per_second", "peak_flops", *SIZES)),
    ),
    cases={
        "cases": Cases(gpt, {"V": (11, 50257), "T": (5, 1024), "D": (2, 768), "F": (3, 3072), "L": (1, 12)}, draws=5)
    },
    checks=(
        look("parameters", 2, "count_parameters"),
        look("operations forward", 2, "forward_flops_per_token"),
        look("operations in training", 1, "training_flops_per_token"),
        look("bytes in training", 1, "training_bytes"),
        look("utilisation", 1, "utilisation"),
    ),
)
