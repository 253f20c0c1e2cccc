"""Problem 14: the smallest model learns the easiest task."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output_and_gradient, parameters
from grader.problem import EXACT, FLOAT32, Cases, Check, Entry, Problem, Tolerance

MODEL = "AToA"
STEPS = 150


def story(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """One row of random tokens, (T,)."""
    V = sizes["V"]
    return {"vocab_size": V, "d_model": sizes["D"], "token_ids": rng.integers(0, V, sizes["T"]).astype("int32")}


def batch(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """One batch of random tokens, (1, B, T)."""
    V = sizes["V"]
    token_ids = rng.integers(0, V, (1, sizes["B"], sizes["T"])).astype("int32")
    return {"vocab_size": V, "d_model": sizes["D"], "token_ids": token_ids}


def run(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The sizes of a whole run of random tokens, (STEPS, B, T)."""
    return {
        "vocab_size": sizes["V"],
        "d_model": sizes["D"],
        "steps": STEPS,
        "batch_size": sizes["B"],
        "context": sizes["T"],
    }


LEARNING: Any = {"cases": "training", "traced": True, "read": True}

# The page gives the two limits, 0.5 and 0.05. They only need room for the differences between random starts, hence 1.5.
PROBLEM = Problem(
    title="A to A",
    builds_on=(7, 8),
    entries=(
        Entry(MODEL, ("token_ids",), construct=("vocab_size", "d_model")),
        Entry("learn_identity", ("model", "token_ids")),
    ),
    cases={
        "cases": Cases(story, {"T": (4, 5), "V": (6, 7), "D": (3, 8)}, draws=2),
        "start": Cases(batch, {"V": (20, 30), "B": (8,), "T": (7,), "D": (12,)}, draws=1),
        "training": Cases(run, {"V": (20, 30), "B": (8,), "T": (7,), "D": (12,)}, draws=1),
    },
    checks=(
        parameters(MODEL, points=1),
        *output_and_gradient(MODEL, wrt="parameters", points=(1, 1)),
        # Given the parameters, the first loss is a function of them: no random start, so the usual tolerance.
        Check("loss before the first update", 1, "starting", leaves="first_loss", cases="start", tolerance=FLOAT32),
        Check(
            "first loss near ln V", 1, "learning", leaves="distance_from_ln_V", **LEARNING, compare="at_most",
            tolerance=Tolerance(0.0, 0.5, room=1.5),
            advice="A new model knows nothing, so its loss is near ln V. It is far above if the first logits are large: keep "
            "Flax's default initialization. The loss is a mean over all tokens of the batch, in nats.",
        ),
        Check(
            "last loss near 0", 2, "learning", leaves="last_loss", **LEARNING, compare="at_most",
            tolerance=Tolerance(0.0, 0.05, room=1.5),
        ),
        Check("every token repeated", 1, "learning", leaves="repeats", **LEARNING, tolerance=EXACT),
    ),
)  # fmt: skip
