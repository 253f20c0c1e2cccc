"""Problem 14: the smallest model learns the simplest task."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output_and_gradient, parameters
from grader.problem import EXACT, FLOAT32, Cases, Check, Entry, Problem, Tolerance

MODEL = "AToA"
STEPS = 150


def story(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    V = sizes["V"]
    return {"vocab_size": V, "d_model": sizes["D"], "token_ids": rng.integers(0, V, sizes["T"]).astype("int32")}


def batches(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    V = sizes["V"]
    token_ids = rng.integers(0, V, (STEPS, sizes["B"], sizes["T"])).astype("int32")
    return {"vocab_size": V, "d_model": sizes["D"], "token_ids": token_ids}


# The bounds that the page gives, which a run either keeps or not: they need no more room than what random starts differ by.
PROBLEM = Problem(
    title="A to A",
    builds_on=(7, 8),
    entries=(
        Entry(MODEL, ("token_ids",), construct=("vocab_size", "d_model")),
        Entry("learn_identity", ("model", "token_ids")),
    ),
    cases={
        "cases": Cases(story, {"T": (4, 5), "V": (6, 7), "D": (3, 8)}, draws=2),
        "training": Cases(batches, {"V": (20, 30), "B": (8,), "T": (7,), "D": (12,)}, draws=1),
    },
    checks=(
        parameters(MODEL, points=1),
        *output_and_gradient(MODEL, wrt="parameters", points=(1, 1)),
        # The first loss of a model whose parameters are given is a plain function of them.
        Check("the loss before the first update", 1, "learning", leaves="first_loss", cases="training", tolerance=FLOAT32),
        Check(
            "starts at ln V", 1, "learning", leaves="start_off_by", cases="training", compare="at_most",
            tolerance=Tolerance(0.0, 0.5, room=1.5),
        ),
        Check(
            "comes down to 0", 2, "learning", leaves="last_loss", cases="training", compare="at_most",
            tolerance=Tolerance(0.0, 0.05, room=1.5),
        ),
        Check("repeats what it is told", 1, "learning", leaves="repeats", cases="training", tolerance=EXACT),
    ),
)  # fmt: skip
