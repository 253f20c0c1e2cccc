"""Problem 31: LoRA, adapters of low rank."""

from collections.abc import Mapping
from typing import Any

from grader.checks import YES, exact
from grader.problem import ADAM, Cases, Check, Entry, Problem, Tolerance


def layer(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Inputs (B, D) for a small layer, and how to adapt and train it."""
    D = sizes["D"]
    return {
        "x": rng.standard_normal((sizes["B"], D)).astype("float32"),
        "d_out": sizes["F"],
        "rank": sizes["r"],
        "alpha": 5.0,
        "learning_rate": 0.02,
        "seed": rng.integers(0, 2**31, 1).astype("uint32"),
    }


def at_rest(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Inputs of zeros, so all gradients of the adapter are 0 and only AdamW's weight decay, 1e-4 · rate, moves it."""
    values = layer(sizes, rng)
    return {**values, "x": values["x"] * 0, "learning_rate": 500.0}


def wide(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A layer wide enough to measure the spread of its initial values."""
    return {"d_in": 1024, "d_out": 3, "rank": 256, "alpha": 2.0, "seed": rng.integers(0, 2**31, 1).astype("uint32")}


# Of 262,144 normal numbers, the root mean square is known to 0.14% and the share beyond two standard deviations to
# 0.9%. A wrong standard deviation is off by a factor of 1.4 or more, and uniform numbers have no such share.
SPREAD = Tolerance(rtol=0.06, atol=0.0, room=5)

# An optimizer may keep a few more counts of its steps. The moments of the base are at least 25 numbers.
COUNTS = Tolerance(rtol=0.0, atol=10.0, room=2)

PROBLEM = Problem(
    title="LoRA",
    minutes=60,
    builds_on=(8, 9),
    entries=(
        Entry("LoRALinear", ("base", "rank", "alpha", "rngs")),
        Entry("lora_optimizer", ("model", "learning_rate")),
        Entry("merge", ("layer",)),
    ),
    cases={
        "cases": Cases(layer, {"B": (3, 4), "D": (4, 6), "F": (5, 7), "r": (2, 3)}, draws=2),
        "at rest": Cases(
            at_rest, {"B": (3,), "D": (4, 6), "F": (5, 7), "r": (1,)}, draws=1, covers=("coprime", "one")
        ),
        "wide": Cases(wide, {"n": (1,)}, draws=1),
    },
    checks=(
        Check("variables", 1, "adapting", leaves="variables"),
        exact("start at the base model", 1, "adapting", "change_at_start"),
        Check("initial values of a and b", 1, "starting", leaves="spread", cases="wide", tolerance=SPREAD),
        exact(
            "a drawn with a key from rngs", 1, "starting", "same_a_with_other_rngs", cases="wide", words=YES,
            advice="Two layers that were built with different `rngs` start with the same a. Draw it with "
                "`rngs.params()`.",
        ),
        Check("output", 2, "adapting", leaves="output"),
        Check("gradient of the input", 1, "adapting", leaves="gradient"),
        exact(
            "base unchanged by training", 1, "training", "base_moved", words={0: "unchanged", 1: "changed"},
            advice="Make the optimizer with `wrt=nnx.LoRAParam`, so that it sees only variables of that type.",
        ),
        Check("adapter after training", 2, "training", leaves="adapter", tolerance=ADAM),
        Check("weight decay", 1, "training", leaves="adapter", cases="at rest", tolerance=ADAM),
        Check(
            "no optimizer state for the "
            "base", 1, "training", leaves="numbers_of_state", compare="at_most", tolerance=COUNTS,
        ),
        Check("merged layer", 1, "adapting", leaves="merged"),
        exact("layer unchanged by the merge", 1, "adapting", "changed_by_merging", words=YES),
    ),
)  # fmt: skip
