"""Problem 03: causal multi-head attention."""

from collections.abc import Mapping
from typing import Any

from grader.checks import causality, output, output_and_gradient, parameters
from grader.problem import Cases, Check, Entry, Problem, Tolerance

MHA = "CausalMHA"


def activations(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Unit-normal activations for H heads of width K."""
    D = sizes["H"] * sizes["K"]
    return {"d_model": D, "num_heads": sizes["H"], "x": rng.standard_normal((sizes["T"], D)).astype("float32")}


def many_heads(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story of one token, and as many heads as GPT-2 small has."""
    return activations({**sizes, "T": 1}, rng)


def zeros(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Activations with a row of zeros. Without biases, its query and its key are zero, and so are all scores of both.

    The module has one head.
    """
    values = activations(sizes, rng)
    values["x"][1] = 0
    return values


# A gradient sums over positions and heads what nearly cancels: over 20 seeds, correct programs differ by up to 2.4e-6
# of its size, and wrong ones by thousands of times the tolerance.
SUMS = Tolerance(rtol=5e-5, atol=5e-5)

PROBLEM = Problem(
    title="Causal multi-head attention",
    minutes=65,
    builds_on=(2,),
    entries=(Entry(MHA, ("x",), construct=("d_model", "num_heads")),),
    cases={
        "cases": Cases(activations, {"T": (4, 5, 7), "H": (2, 3), "K": (4, 5)}, draws=2),
        "zeros": Cases(zeros, {"T": (5, 7), "H": (1,), "K": (4, 3)}, draws=1, covers=("coprime", "one")),
        "many heads": Cases(many_heads, {"H": (12,), "K": (1, 2)}, draws=1, covers=("one",)),
    },
    checks=(
        parameters(MHA, points=1),
        *output_and_gradient(MHA, wrt="parameters", points=(1, 1), tolerance=SUMS),
        output(MHA, points=1, name="one token, twelve heads", cases="many heads", tolerance=SUMS),
        causality(MHA, argument="x", points=2),
        Check("scores of exactly 0", 1, "without_biases", {"entry": MHA}, "output", cases="zeros"),
    ),
)  # fmt: skip
