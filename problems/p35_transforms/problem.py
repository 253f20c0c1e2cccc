"""Problem 35: transforms."""

from collections.abc import Mapping
from typing import Any

from grader.problem import ADAM, Cases, Check, Entry, Problem, Tolerance


def batches(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Four batches (B, D) with targets (B,), and the sizes of one model and of E models."""
    shape = (4, sizes["B"], sizes["D"])
    return {
        "d_model": sizes["D"],
        "d_ff": sizes["F"],
        "num_models": sizes["E"],
        "learning_rate": 0.05,
        "x": rng.standard_normal(shape).astype("float32"),
        "y": rng.standard_normal(shape[:2]).astype("float32"),
    }


# Four copies of the step have 2.9 times the operations of one copy with four calls. Two copies are allowed (1.7 times),
# because a state that starts with a Python number has a weak type in JAX, so its step is compiled a second time.
ONE_STEP = Tolerance(rtol=1.0, atol=0.0, room=1.4)

PROBLEM = Problem(
    title="Transforms",
    minutes=50,
    entries=(
        Entry("train_step", ("model", "optimizer", "x", "y")),
        Entry("input_gradient", ("model", "x")),
        Entry("member_outputs", ("models", "x")),
    ),
    cases={
        "cases": Cases(batches, {"B": (7, 6), "D": (3, 5), "F": (5, 7), "E": (1, 3)}, draws=2,
            covers=("coprime", "one"))
    },
    checks=(
        Check("losses of four steps", 2, "training", leaves="losses", tolerance=ADAM),
        Check("variables after four steps", 2, "training", leaves="variables", tolerance=ADAM),
        # All operations count, not only matrix products: a model can be written without those.
        Check(
            "compiled once", 2, "training", leaves="program.operations", compare="at_most", tolerance=ONE_STEP,
            values_tolerance=ADAM,
            advice="The program of four steps holds more than one copy of the step. Decorate `train_step` with "
            "`@nnx.jit`, outside of any function, and change nothing but arrays between the calls.",
        ),
        Check("gradient of the input", 1, "differentiating", leaves="gradient"),
        Check("variables after the gradient", 1, "differentiating", leaves="variables"),
        Check("outputs of the members", 1, "mapping", leaves="output"),
        Check("variables of the members", 1, "mapping", leaves="variables"),
    ),
)  # fmt: skip
