"""Problem 08: a train step."""

from collections.abc import Mapping
from typing import Any

from grader.checks import compiled_once
from grader.problem import ADAM, FLOAT32, Cases, Check, Entry, Problem

STEPS = 4


def batches(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Four batches of right-padded stories, and the sizes of the grader's small model.

    In the first batch, one story has no padding and another no target.
    """
    V, B, T = sizes["V"], sizes["B"], sizes["T"]
    token_ids = rng.integers(0, V - 1, (STEPS, B, T)).astype("int32")
    for row, real in enumerate([T, 1, *rng.integers(2, T, STEPS * B - 2)]):
        token_ids.reshape(-1, T)[row, real:] = V - 1
    return {
        "token_ids": token_ids,
        "pad_id": V - 1,
        "learning_rate": 0.05,
        "vocab_size": V,
        "d_model": sizes["D"],
        "d_ff": sizes["F"],
    }


def nothing_to_learn(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Four batches of nothing but padding. All gradients are 0, so only a decay of the parameters can change them.

    The vocabulary is that of GPT-2, and a batch has one story.
    """
    values = batches(sizes, rng)
    return {**values, "token_ids": 0 * values["token_ids"] + values["pad_id"], "learning_rate": 10.0}


SIZES = {"V": (7, 9), "B": (3, 2), "T": (5, 6), "D": (4,), "F": (6,)}
LARGE = {"V": (50_257,), "B": (1,), "T": (3, 9), "D": (5,), "F": (7,)}  # beside four batches: no two share a factor

PROBLEM = Problem(
    title="A train step",
    minutes=45,
    builds_on=(7,),
    entries=(
        Entry("make_optimizer", ("model", "learning_rate")),
        Entry("train_step", ("model", "optimizer", "token_ids", "pad_id")),
    ),
    cases={
        "cases": Cases(batches, SIZES, draws=2),
        "padding": Cases(nothing_to_learn, LARGE, draws=1, covers=("vocabulary", "coprime", "one")),
    },
    checks=(
        Check("losses of four steps", 2, "training", leaves="losses", tolerance=ADAM),
        Check("parameters after four steps", 2, "training", leaves="parameters", tolerance=ADAM),
        # Gradients of exactly 0 leave every bit of the parameters as it is. AdamW's default decay changes them by 0.4%.
        Check("nothing to learn, nothing "
            "changed", 1, "training", leaves="parameters", cases="padding", tolerance=FLOAT32),
        Check("optimizer state", 1, "training", leaves="optimizer", tolerance=ADAM),
        compiled_once(
            1, "training", values_tolerance=ADAM,
            advice="The program of four steps holds more than one copy of the step. Decorate `train_step` with "
            "`@nnx.jit`. Between calls, nothing but the values of arrays may change.",
        ),
    ),
)  # fmt: skip
