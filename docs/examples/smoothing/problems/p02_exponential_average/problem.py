"""Problem 02: exponential average."""

from collections.abc import Mapping
from typing import Any

from grader.checks import jit, output_and_gradient
from grader.problem import Cases, Entry, Problem


def signal(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A signal of T rows, and a decay in percent: none is a half, where the decay and its complement would be the
    same."""
    return {"x": rng.standard_normal((sizes["T"], sizes["D"])).astype("float32"), "decay": sizes["percent"] / 100}


PROBLEM = Problem(
    title="Exponential average",
    entries=(Entry("exponential_average", ("x", "decay")),),
    cases={"cases": Cases(signal, {"T": (2, 7, 6), "D": (5, 2, 1), "percent": (60, 90)}, covers=("coprime", "one"))},
    checks=(
        *output_and_gradient("exponential_average", wrt=["x"], points=(2, 1)),
        jit("exponential_average", points=1),
    ),
    builds_on=(1,),
)
