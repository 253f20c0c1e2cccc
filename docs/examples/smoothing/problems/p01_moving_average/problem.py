"""Problem 01: moving average."""

from collections.abc import Mapping
from typing import Any

from grader.checks import jit, output, output_and_gradient
from grader.problem import Cases, Entry, Problem


def signal(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A signal of T rows, and a window of W rows."""
    return {"x": rng.standard_normal((sizes["T"], sizes["D"])).astype("float32"), "window": sizes["W"]}


PROBLEM = Problem(
    title="Moving average",
    entries=(Entry("moving_average", ("x", "window")),),
    cases={
        "cases": Cases(signal, {"T": (3, 7), "D": (2, 5), "W": (1, 2)}, draws=4, covers=("coprime",)),
        "long": Cases(signal, {"T": (3, 7), "D": (1,), "W": (8,)}, draws=2, covers=("one",)),
    },
    checks=(
        *output_and_gradient("moving_average", wrt=["x"], points=(2, 1)),
        output("moving_average", points=1, name="long windows", cases="long"),
        jit("moving_average", points=1),
    ),
)
