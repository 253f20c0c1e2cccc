"""Problem 05: a pre-LN transformer block."""

from collections.abc import Mapping
from typing import Any

from grader.checks import causality, output_and_gradient, parameters
from grader.problem import Cases, Check, Entry, Problem, Tolerance

BLOCK = "GPTBlock"


def activations(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Activations with a mean of about 1, so that a missing norm shows. One row is so small that the norm's epsilon
    shows."""
    D = sizes["H"] * sizes["K"]
    x = (2 * rng.standard_normal((sizes["T"], D)) + 1).astype("float32")
    x[1] *= 1e-3
    return {"d_model": D, "num_heads": sizes["H"], "d_ff": sizes["F"], "x": x}


def one_head(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story of one token, whose numbers are so small that the norms' epsilon shows, and one head."""
    D = sizes["D"]
    x = (2e-3 * rng.standard_normal((1, D)) + 1e-3).astype("float32")
    return {"d_model": D, "num_heads": 1, "d_ff": sizes["F"], "x": x}


# The norm divides the row that is a thousand times smaller by its deviation, so rounding grows: over 20 seeds, correct
# programs differ by up to 2.1e-6 of a gradient's size, and wrong ones by a hundred times the tolerance or more.
SMALL_ROW = Tolerance(rtol=5e-5, atol=5e-5)

PROBLEM = Problem(
    title="A GPT block",
    minutes=40,
    builds_on=(3, 4),
    entries=(Entry(BLOCK, ("x",), construct=("d_model", "num_heads", "d_ff")),),
    cases={
        "cases": Cases(activations, {"T": (4, 5), "H": (2, 3), "K": (3, 4), "F": (7, 10)}, draws=2),
        "one": Cases(one_head, {"D": (3, 5), "F": (8, 7)}, draws=1, covers=("one", "coprime")),
    },
    checks=(
        parameters(BLOCK, points=1),
        *output_and_gradient(BLOCK, wrt="parameters", points=(2, 1), tolerance=SMALL_ROW),
        Check("one token of small numbers", 1, "small_numbers", {"entry": BLOCK}, "output", "one", tolerance=SMALL_ROW),
        causality(BLOCK, argument="x", points=1),
    ),
)
