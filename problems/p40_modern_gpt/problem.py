"""Problem 40: a modern GPT, with a sliding window."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grader.checks import YES, jit, output_and_gradient, parameters
from grader.problem import Cases, Check, Entry, Problem, Tolerance

MODEL = "ModernGPT"


def story(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story of several windows, for a model in which only layer 1 of 3 sees all of it."""
    V, H = sizes["V"], sizes["G"] * sizes["R"]
    return {
        "vocab_size": V,
        "d_model": H * sizes["K"],
        "num_heads": H,
        "num_kv_heads": sizes["G"],
        "d_ff": sizes["F"],
        "num_layers": sizes["L"],
        "window": sizes["W"],
        "full_every": sizes["n"],
        "rope_base": float(sizes["base"]),
        "norm_epsilon": sizes["thousandths"] / 1000,
        "token_ids": rng.integers(0, V, sizes["T"]).astype("int32"),
    }


# Each of the three blocks amplifies the rounding errors of the one before: correct programs differ by 7e-6 in a
# gradient.
DEEP = Tolerance(rtol=1e-4, atol=1e-4)
SIZES = (
    "vocab_size",
    "d_model",
    "num_heads",
    "num_kv_heads",
    "d_ff",
    "num_layers",
    "window",
    "full_every",
    "rope_base",
    "norm_epsilon",
)
# One shape for most cases: problems 37 to 39 vary the shapes of the parts, and each shape of this model is slow to
# trace.
SHAPE = {
    "T": (8,), "V": (9,), "G": (2,), "R": (3,), "K": (4,), "F": (10,), "L": (3,), "W": (3,), "n": (2,), "base": (100,),
    "thousandths": (50,),
}  # fmt: skip
# No layer is full.
LOCAL = {
    "T": (7,), "V": (11,), "G": (3,), "R": (2,), "K": (2,), "F": (5,), "L": (2,), "W": (2,), "n": (3,), "base": (61,),
    "thousandths": (31,),
}  # fmt: skip
# The depth and the vocabulary of GPT-2 small, in a model with one head. It is constructed and not run: compiling it
# would take longer than all other checks.
LIFE = {
    "T": (5,), "V": (50_257,), "G": (1,), "R": (1,), "K": (2,), "F": (1,), "L": (12,), "W": (2,), "n": (6,),
    "base": (90,),
    "thousandths": (40,),
}  # fmt: skip

PROBLEM = Problem(
    title="A modern GPT",
    minutes=135,
    builds_on=(6, 37, 38, 39),
    entries=(Entry(MODEL, ("token_ids",), construct=SIZES),),
    cases={
        "cases": Cases(story, SHAPE, draws=2),
        "local": Cases(story, LOCAL, draws=1, covers=("coprime",)),
        "life": Cases(story, LIFE, draws=1, covers=("layers", "vocabulary", "one")),
    },
    checks=(
        parameters(MODEL, points=2),
        replace(parameters(MODEL, points=1, cases="life"), name="parameters of 12 layers"),
        *output_and_gradient(MODEL, wrt="parameters", points=(3, 1), tolerance=DEEP),
        Check(
            "what each position sees", 3, "reach", leaves="reach", cases="local", tolerance=DEEP, words=YES,
            advice="Row t of `depends` shows which tokens influence the logits of position t through two layers with a "
            "window of 2: those of the positions t-2 to t, because each layer reaches 1 further back. The other leaves "
            "are logits: `output` of this model, that of the first token alone, and three of models with the same "
            "parameters and another `window` or `full_every`.",
        ),
        jit(MODEL, points=1, tolerance=DEEP),
    ),
)  # fmt: skip
