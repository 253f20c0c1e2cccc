"""Problem 03: causal multi-head attention."""

from collections.abc import Mapping
from typing import Any

from grader.checks import causality, output_and_gradient, parameters
from grader.problem import Cases, Entry, Problem

MHA = "CausalMHA"


def activations(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Unit-normal activations for H heads of width K."""
    D = sizes["H"] * sizes["K"]
    return {"d_model": D, "num_heads": sizes["H"], "x": rng.standard_normal((sizes["T"], D)).astype("float32")}


PROBLEM = Problem(
    title="Causal multi-head attention",
    builds_on=(2,),
    entries=(Entry(MHA, ("x",), construct=("d_model", "num_heads")),),
    cases={"cases": Cases(activations, {"T": (4, 5, 7), "H": (2, 3), "K": (4, 5)}, draws=2)},
    checks=(
        parameters(MHA, points=1),
        *output_and_gradient(MHA, wrt="parameters", points=(2, 1)),
        causality(MHA, argument="x", points=2),
    ),
)  # fmt: skip
