"""Problem 33: modules and parameters."""

from collections.abc import Mapping
from typing import Any

from grader.checks import parameters
from grader.problem import Cases, Check, Entry, Problem

SCORER = "StoryScorer"


def stories(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Two stories (2, D) to observe, one to score, and a running mean to start from."""
    D = sizes["D"]
    return {
        "d_model": D,
        "num_topics": sizes["C"],
        "num_layers": sizes["L"],
        # Large beside the biases, which are about 1: without the last ReLU, some number must be negative.
        "x": (10 * rng.standard_normal(D)).astype("float32"),
        "mean": rng.standard_normal(D).astype("float32"),
        "stories": rng.standard_normal((2, D)).astype("float32"),
    }


PROBLEM = Problem(
    title="Modules and parameters",
    minutes=55,
    entries=(Entry(SCORER, ("x",), construct=("d_model", "num_topics", "num_layers")),),
    cases={
        "cases": Cases(stories, {"D": (6, 8), "C": (3, 5), "L": (2, 3)}, draws=3),
        "deep": Cases(
            stories, {"D": (2, 4), "C": (1,), "L": (13, 11)}, draws=1, covers=("layers", "coprime", "one"),
        ),
    },
    checks=(
        parameters(SCORER, points=1, initial=["scale"]),
        Check(
            "variables that are not parameters", 1, "using", leaves="buffers",
            advice="`mean` is the only `nnx.Variable` of the module that is not an `nnx.Param`. It starts at 0.",
        ),
        Check("output", 2, "using", leaves="output"),
        Check("twelve layers or more, one topic", 1, "calling", leaves="output", cases="deep"),
        Check("gradient", 1, "using", leaves="gradient"),
        Check(
            "observe", 2, "using", leaves="observed",
            advice="`observe` changes the numbers in `mean`, in place, and nothing else: `self.mean[...] = ...`. "
            "`mean_held_before` is read from the variable that was `mean` before the calls. The module is called last, "
            "and must leave `mean` alone.",
        ),
        Check(
            "two models share nothing", 1, "using", leaves="other",
            advice="One model was filled and used. These are the variables of a second model, which must still have "
            "their initial values. Create every variable in `__init__`.",
        ),
    ),
)  # fmt: skip
