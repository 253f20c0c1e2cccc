"""Problem 01: Double and add one."""

from collections.abc import Mapping
from typing import Any

from grader.checks import jit, output_and_gradient
from grader.problem import Cases, Entry, Problem


# TODO: the cases: the inputs, drawn from these sizes
def rows(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {"x": rng.standard_normal((sizes["T"], sizes["D"])).astype("float32")}


# TODO: the checks: what is graded, with points
PROBLEM = Problem(
    title="Double and add one",
    entries=(Entry("double_and_add", ("x",)),),
    cases={"cases": Cases(rows, {"T": (1, 2, 5), "D": (3, 7)}, covers=("coprime", "one"))},
    checks=(
        *output_and_gradient("double_and_add", wrt=["x"], points=(2, 1)),
        jit("double_and_add", points=1),
    ),
)
