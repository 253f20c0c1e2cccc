"""Problem 41: GPT-2's arrays in the format of Hugging Face, loaded into a MiniGPT with a GELU."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.checks import exact, output_and_gradient, parameters
from grader.problem import Cases, Check, Entry, Problem, Tolerance

MODEL = "GPT2"
SHAPE = {"V": (11,), "H": (3,), "F": (14,), "L": (2,)}
SIZES = ("vocab_size", "d_model", "num_heads", "d_ff", "num_layers", "max_T")


def gpt(T: int, max_T: int, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The sizes of a small GPT, and token ids (T,) to run it on."""
    V, H = sizes["V"], sizes["H"]
    return {
        "vocab_size": V,
        "d_model": 4 * H,
        "num_heads": H,
        "d_ff": sizes["F"],
        "num_layers": sizes["L"],
        "max_T": max_T,
        "context": max_T,  # the same, as the grader's own model calls it
        "token_ids": rng.integers(0, V, T).astype("int32"),
    }


# Correct gradients differ by up to 6e-6 through two layers, more than a tenth of the usual tolerance. The exact GELU
# changes them by 9e-4.
GELU = Tolerance(rtol=7e-5, atol=7e-5)
RAISED = {0: "no error", 1: "the right error", 2: "another error"}

PROBLEM = Problem(
    title="Load GPT-2",
    minutes=150,
    builds_on=(3, 6, 28),
    entries=(Entry(MODEL, ("token_ids",), construct=SIZES), Entry("load_gpt2", ("tensors", "model"))),
    cases={
        "cases": Cases(partial(gpt, 5, 7), SHAPE, draws=1),
        "whole context": Cases(partial(gpt, 6, 6), {"V": (13,), "H": (2,), "F": (10,), "L": (3,)}, draws=1),
        # All kernels are square: a swap or a transpose shows in the numbers, not in an error of the learner's own.
        "square": Cases(partial(gpt, 5, 7), {**SHAPE, "F": (12,)}, draws=1),
        # The depth and the vocabulary of GPT-2. Its arrays are loaded; the model does not run.
        "deep": Cases(
            partial(gpt, 5, 7), {"V": (50_257,), "H": (1,), "F": (13,), "L": (12,)}, draws=1,
            covers=("layers", "vocabulary", "coprime", "one"),
        ),
    },
    checks=(
        parameters(MODEL, points=1),
        *output_and_gradient(MODEL, wrt="parameters", points=(2, 1), names=("logits", "gradient"), tolerance=GELU),
        Check("logits of small embeddings", 2, "faint", leaves="logits", cases="whole context", tolerance=GELU),
        exact("every array in its "
            "place", 3, "loading", "parameters", options={"prefix": "transformer."}, cases="square"),
        exact("12 layers", 1, "loading", "parameters", options={"prefix": "transformer."}, cases="deep"),
        exact("names without `transformer.`", 1, "loading", "parameters", options={"prefix": ""}),
        exact("other arrays ignored", 1, "loading", "parameters", options={"prefix": "", "others": True}),
        exact("missing arrays", 1, "failing", "missing", words=RAISED, advice="Raise `KeyError` for each array that is "
            "missing."),
        exact(
            "files that do not fit the model", 1, "failing", "unfit", words=RAISED,
            advice="Raise `ValueError` for an array of another shape, for one layer more, and for an untied head.",
        ),
    ),
)  # fmt: skip
