"""Problem 24: a learning rate that transfers across widths."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output, output_and_gradient, parameters
from grader.problem import Cases, Check, Entry, Problem, Tolerance

MODEL = "MupLM"


def story(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    V, base = sizes["V"], sizes["base"]
    token_ids = rng.integers(0, V, sizes["T"]).astype("int32")
    return {"vocab_size": V, "d_model": base * sizes["r"], "base_d_model": base, "token_ids": token_ids}


def rates(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {"learning_rate": 0.02, "d_model": 8 * sizes["r"], "base_d_model": 8}


def widths(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    token_ids = rng.integers(0, sizes["V"], 24).astype("int32")
    seed = rng.integers(0, 2**31, 1).astype("uint32")
    return {"vocab_size": sizes["V"], "base_d_model": 32, "learning_rate": 0.01, "token_ids": token_ids, "seed": seed}


# Over four random starts, the standard deviation of some twenty thousand normal numbers is known to 0.5 %. Measured
# over 20 seeds: correct programs, some of which draw in another way, differ by up to 2.6 %, wrong ones by 65 % or more.
DEVIATION = Tolerance(rtol=0.1, atol=0.0, room=3)
# Averaged over four random starts, the logits change by the same amount at both widths up to some 20 %. Wrong scalings
# are off by a factor of 2.8 (the root of the ratio of the widths) or more.
CHANGE = Tolerance(rtol=0.8, atol=0.0, room=1.5)

PROBLEM = Problem(
    title="Widths that share a learning rate",
    minutes=60,
    builds_on=(9, 14),
    entries=(
        Entry(MODEL, ("token_ids",), construct=("vocab_size", "d_model", "base_d_model")),
        Entry("mup_adam", ("learning_rate", "d_model", "base_d_model")),
    ),
    cases={
        # Filled biases are near 1. In this many units some are negative, so that a missing ReLU shows.
        "cases": Cases(story, {"T": (4, 5), "V": (4, 5), "base": (16, 24), "r": (2, 4)}, draws=2),
        "large": Cases(story, {"T": (5,), "V": (7,), "base": (32, 31), "r": (8, 7)}, draws=1),
        # The base width itself, and a vocabulary that is large for it.
        "base": Cases(
            story, {"T": (5,), "V": (50257,), "base": (3, 7), "r": (1,)}, draws=1,
            covers=("vocabulary", "coprime", "one")
        ),
        "rates": Cases(rates, {"r": (4, 2)}, draws=2),
        "widths": Cases(widths, {"V": (20, 30)}, draws=1),
    },
    checks=(
        parameters(MODEL, points=1),
        *output_and_gradient(MODEL, wrt="parameters", points=(1, 1)),
        output(MODEL, points=1, name="output at a large width", cases="large"),
        output(MODEL, points=1, name="output at the base width", cases="base"),
        Check(
            "initial standard "
            "deviations", 2, "starting", leaves="standard_deviation", cases="widths", tolerance=DEVIATION
        ),
        Check("updates of each group", 2, "stepping", leaves="update", cases="rates"),
        Check(
            "logits change equally at both "
            "widths", 1, "transferring", leaves="growth", cases="widths", tolerance=CHANGE,
            advice="The value is the change of the logits in three steps at 8 times the base width, divided by the "
            "change at the base width. It should be about 1. Check the initial standard deviations, the factor 1/r on "
            "the logits, and the rate of the hidden kernel.",
        ),
    ),
)  # fmt: skip
