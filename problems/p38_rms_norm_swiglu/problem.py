"""Problem 38: RMSNorm and SwiGLU."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from grader.checks import exact, output, output_and_gradient, parameters
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

NORM, MLP = "RMSNorm", "SwiGLU"


def ordinary(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows with a mean of about 1 and a standard deviation of about 2."""
    x = (2 * rng.standard_normal((sizes["T"], sizes["D"])) + 1).astype("float32")
    return {"d_model": sizes["D"], "epsilon": 1e-5, "x": x}


def faint(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows whose mean square is near epsilon, and a row of zeros. There, epsilon under the root and after it differ."""
    values = ordinary(sizes, rng)
    x = (0.003 * rng.standard_normal(values["x"].shape)).astype("float32")
    x[-1] = 0
    return {**values, "x": x, "epsilon": 3e-5}


def hidden(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows for a feed-forward network of width F."""
    x = rng.standard_normal((sizes["T"], sizes["D"])).astype("float32")
    return {"d_model": sizes["D"], "d_ff": sizes["F"], "x": x}


def rounded(_: Case, wrong: Difference) -> str:
    """How many operations of a kind have 8 significant bits."""
    kind, number = wrong.path.rpartition(".")[2], int(wrong.got)
    return f"the program computes {number} of its {kind} in bfloat16, expected none"


# XLA may compute the division by a root as an approximate reciprocal root, with errors of about 1e-5.
ROOT = Tolerance(rtol=1e-4, atol=1e-4)
# A correct program rounds to the 8 significant bits of bfloat16 once or twice, by up to 0.4% each.
BFLOAT16 = Tolerance(rtol=0.02, atol=0.02, room=2)
SIZES = {"T": (3, 5), "D": (4, 6, 7)}

PROBLEM = Problem(
    title="RMSNorm and SwiGLU",
    minutes=60,
    builds_on=(4, 5),
    forbids=(
        "flax.nnx.BatchNorm", "flax.nnx.GroupNorm", "flax.nnx.InstanceNorm", "flax.nnx.LayerNorm", "flax.nnx.RMSNorm",
        "flax.nnx.SpectralNorm", "flax.nnx.WeightNorm",  # they normalize rows that are passed off as weights
        "flax.nnx.MultiHeadAttention", "flax.nnx.nn", "flax.linen", "jax.nn.standardize",
    ),
    entries=(
        Entry(NORM, ("x",), construct=("d_model", "epsilon")),
        Entry(MLP, ("x",), construct=("d_model", "d_ff")),
    ),
    cases={
        "rows": Cases(ordinary, SIZES, draws=2, covers=("coprime",)),
        "faint": Cases(faint, SIZES, draws=1),
        "bfloat16": Cases(ordinary, {"T": (1,), "D": (12,)}, draws=1, covers=("one",)),
        "hidden": Cases(hidden, {"T": (1, 4), "D": (5, 6), "F": (7, 10)}, draws=2, covers=("one",)),
    },
    checks=(
        replace(parameters(NORM, points=1, initial=["scale"], cases="rows"), name="parameters of RMSNorm"),
        *output_and_gradient(
            NORM, wrt=["x"], points=(2, 1), names=("RMSNorm", "gradient of RMSNorm"), cases="rows", tolerance=ROOT
        ),
        output(NORM, points=1, name="rows of tiny numbers", cases="faint", tolerance=ROOT),
        Check("x in bfloat16", 1, "half_precision", leaves="output", cases="bfloat16", tolerance=BFLOAT16),
        exact(
            "statistics in float32", 1, "half_precision", "program.in_bfloat16", cases="bfloat16", compare="at_most",
            values_tolerance=BFLOAT16, in_words=rounded,
            advice="Convert x to float32 before you square it, and convert the result back at the end.",
        ),
        replace(parameters(MLP, points=1, cases="hidden"), name="parameters of SwiGLU"),
        *output_and_gradient(
            MLP, wrt="parameters", points=(2, 1), names=("SwiGLU", "gradient of SwiGLU"), cases="hidden"
        ),
    ),
)  # fmt: skip
