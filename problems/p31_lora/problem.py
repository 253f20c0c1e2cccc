"""Problem 31: adapters of low rank."""

from collections.abc import Mapping
from typing import Any

from grader.checks import YES
from grader.problem import EXACT, FLOAT32, Cases, Check, Entry, Problem, Tolerance


def layer(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    D = sizes["D"]
    return {
        "x": rng.standard_normal((sizes["B"], D)).astype("float32"),
        "d_out": sizes["F"],
        "rank": sizes["r"],
        "alpha": 5.0,
        "learning_rate": 0.02,
    }


def wide(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {"d_in": 256, "d_out": 3, "rank": 16, "alpha": 2.0}


# As in problem 08: where a gradient is nearly 0, rounding decides Adam's first step.
ADAM = Tolerance(rtol=5e-4, atol=5e-4)
# The spread of 4,096 normal numbers is known to 1 %; a wrong one is off by a factor.
SPREAD = Tolerance(rtol=0.1, atol=0.0, room=5)


def look(name: str, points: int, probe: str, leaves: str, tolerance: Tolerance = FLOAT32, **more: Any) -> Check:
    return Check(name, points, probe, leaves=leaves, tolerance=tolerance, **more)


PROBLEM = Problem(
    title="LoRA",
    builds_on=(8, 9),
    entries=(
        Entry("LoRALinear", ("base", "rank", "alpha", "rngs")),
        Entry("lora_optimizer", ("model", "learning_rate")),
        Entry("merge", ("layer",)),
    ),
    cases={
        "cases": Cases(layer, {"B": (3, 4), "D": (4, 6), "F": (5, 7), "r": (2, 3)}, draws=2),
        "wide": Cases(wide, {"n": (1,)}, draws=1),
    },
    checks=(
        look("variables", 1, "adapting", "variables"),
        look("starts at the base model", 1, "adapting", "change_at_start", EXACT),
        look("a is drawn, b is zeros", 1, "starting", "spread", SPREAD, cases="wide"),
        look("output", 2, "adapting", "output"),
        look(
            "base untouched by training", 1, "training", "base_moved", EXACT, words={0: "unmoved", 1: "moved"},
            advice="Make the optimizer with `wrt=nnx.LoRAParam`: it then sees only variables of that type.",
        ),
        look("adapter after training", 2, "training", "adapter", ADAM),
        look("no optimizer state for the base", 1, "training", "numbers_of_state", EXACT),
        look("merged", 1, "adapting", "merged"),
        look("merging changes nothing else", 1, "adapting", "changed_by_merging", EXACT, words=YES),
    ),
)  # fmt: skip
