"""Problem 14: the smallest model learns the easiest task."""

import math
from collections.abc import Mapping
from typing import Any

from grader.checks import output, output_and_gradient, parameters
from grader.problem import EXACT, FLOAT32, Case, Cases, Check, Difference, Entry, Problem, Tolerance

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


def of_loss(case: Case, wrong: Difference) -> str:
    """What the loss after a run says: first of all, whether the training diverges."""
    V, got = int(case.values["vocab_size"]), float(wrong.got.replace(",", ""))
    what = f"the loss of the model after {STEPS} steps is {wrong.got}"
    if not math.isfinite(got):
        return f"the training diverges: {what}, expected {wrong.expected}"
    if got > math.log(V) + 1:
        return (
            f"the training diverges: {what}, above ln V = {math.log(V):.2f} of a model that knows nothing; expected "
            f"{wrong.expected}"
        )
    return f"{what}, expected {wrong.expected}"


def answered(case: Case, wrong: Difference) -> str:
    return f"after the run, token {wrong.index[0]} is answered with {wrong.got}, expected {wrong.expected}"


LEARNING: Any = {"cases": "training", "traced": True, "read": True}

# The page gives the two limits, 0.5 and 0.05. They only need room for the differences between random starts, hence 1.5.
PROBLEM = Problem(
    title="A to A",
    minutes=60,
    builds_on=(7, 8),
    entries=(
        Entry(MODEL, ("token_ids",), construct=("vocab_size", "d_model")),
        Entry("learn_identity", ("model", "token_ids")),
    ),
    cases={
        "cases": Cases(story, {"T": (4, 5), "V": (6, 7), "D": (3, 8)}, draws=2),
        "start": Cases(batch, {"V": (20, 30), "B": (8,), "T": (7,), "D": (12,)}, draws=1, covers=("one",)),
        "large": Cases(story, {"T": (3, 5), "V": (50_257,), "D": (2,)}, draws=1, covers=("vocabulary", "coprime")),
        "training": Cases(run, {"V": (20, 30), "B": (8,), "T": (7,), "D": (12,)}, draws=1),
    },
    checks=(
        parameters(MODEL, points=1),
        *output_and_gradient(MODEL, wrt="parameters", points=(1, 1)),
        output(MODEL, points=1, name="a vocabulary of 50,257", cases="large"),
        # Given the parameters, the first loss is a function of them: no random start, so the usual tolerance.
        Check("loss before the first update", 1, "starting", leaves="first_loss", cases="start", tolerance=FLOAT32),
        Check(
            "first loss near ln V", 1, "learning", leaves="distance_from_ln_V", **LEARNING, compare="at_most",
            tolerance=Tolerance(0.0, 0.5, room=1.5),
            advice="A new model knows nothing, so its loss is near ln V. It is far above if the first logits are "
            "large: keep Flax's default initialization. The loss is a mean over all tokens of the batch, in nats.",
        ),
        Check(
            "last loss near 0", 2, "learning", leaves="last_loss", **LEARNING, compare="at_most",
            tolerance=Tolerance(0.0, 0.05, room=1.5), in_words=of_loss,
        ),
        Check(
            "every token repeated", 1, "learning", leaves="repeats", **LEARNING, tolerance=EXACT, in_words=answered,
            words={-1: "nothing: its logits are not finite"},
        ),
    ),
    without={"steps": "`steps` is the length of a run that really trains: 150 steps are enough, and no code counts "
        "them"},
)  # fmt: skip
