"""Problem 06: the complete model."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output, output_and_gradient, parameters
from grader.problem import Cases, Entry, Problem, Tolerance

FORWARD, MODEL = "mini_gpt_forward", "MiniGPT"
SHAPE = ("vocab_size", "d_model", "num_heads", "d_ff", "num_layers")
SIZES = {"T": (4,), "V": (9,), "H": (2,), "K": (3,), "F": (7,), "L": (2,), "seed": (3,)}
# The vocabulary and the number of layers of GPT-2 small, and sizes that share no factor.
LARGE = {"T": (5,), "V": (50_257,), "H": (1,), "K": (11,), "F": (13, 19), "L": (12,), "seed": (17,)}


def story(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story `token_ids` that is two tokens shorter than `context_ids`, whose length is the number of positions.

    It begins with the last token of the vocabulary.
    """
    T, V = sizes["T"], sizes["V"]
    context_ids = rng.integers(0, V, T + 2).astype("int32")
    context_ids[0] = V - 1
    return {
        "seed": sizes["seed"],
        "context_ids": context_ids,
        "token_ids": context_ids[:T],
        "vocab_size": V,
        "d_model": sizes["H"] * sizes["K"],
        "num_heads": sizes["H"],
        "d_ff": sizes["F"],
        "num_layers": sizes["L"],
    }


# Measured: in the large model, the smallest error of a misconception is 8e-5 of the logits, that of a correct program
# 7e-8.
SMALL = Tolerance(rtol=5e-6, atol=5e-6)

PROBLEM = Problem(
    title="MiniGPT",
    minutes=85,
    builds_on=(1, 5),
    entries=(
        Entry(FORWARD, ("seed", "token_ids", *SHAPE)),
        Entry(MODEL, ("token_ids",), made_by=Entry(FORWARD, ("seed", "context_ids", *SHAPE))),
    ),
    # One shape for each program: problems 01 to 05 vary the shapes of the parts, and each shape of this model is slow
    # to trace.
    cases={
        "cases": Cases(story, SIZES, draws=2),
        "entry": Cases(story, LARGE, draws=1, covers=("layers", "vocabulary", "coprime", "one")),
    },
    checks=(
        parameters(MODEL, points=1, initial=["pos_embed"]),
        *output_and_gradient(MODEL, wrt="parameters", points=(3, 1)),
        output(FORWARD, fill=MODEL, points=1, name="mini_gpt_forward", cases="entry", tolerance=SMALL),
    ),
)
