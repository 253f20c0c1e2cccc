"""Problem 04: layer normalization, by hand."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output, output_and_gradient
from grader.problem import Cases, Entry, Problem, Tolerance

NORM = "layer_norm"


def ordinary(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows with a mean of about 1 and a standard deviation of about 2. Row 1, if there is one, is constant: its
    variance is 0.

    Epsilon is large enough that the gradients of that row, which grow like 1/√epsilon, do not drown the others.
    """
    D = sizes["D"]
    x = (2 * rng.standard_normal((sizes["T"], D)) + 1).astype("float32")
    if sizes["T"] > 1:
        x[1] = x[1, 0]
    return {
        "x": x,
        "scale": (1 + rng.standard_normal(D) / 2).astype("float32"),
        "bias": rng.standard_normal(D).astype("float32"),
        "epsilon": 0.02,
    }


def faint(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows with a variance near epsilon. There, epsilon under the root and epsilon after it give different results.

    Of several rows, the last is so faint that even its deviation is below epsilon.
    """
    values = ordinary(sizes, rng)
    x = 0.003 * rng.standard_normal(values["x"].shape)
    x[1:][-1:] *= 0.003
    return {**values, "x": x.astype("float32"), "epsilon": 3e-5}


def distant(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows with a mean near 4,096. Their sums are exact in float32, so only the squares of such numbers lose digits."""
    values = ordinary(sizes, rng)
    return {**values, "x": (4096 + rng.integers(-64, 65, values["x"].shape) / 16).astype("float32")}


# XLA may compute the division by a root as an approximate reciprocal root, with errors of about 1e-5.
ROOT = Tolerance(rtol=1e-4, atol=1e-4)
SIZES = {"T": (3, 5), "D": (4, 7, 8)}

PROBLEM = Problem(
    title="Layer normalization, by hand",
    minutes=30,
    forbids=(
        "flax.nnx.BatchNorm",
        "flax.nnx.GroupNorm",
        "flax.nnx.InstanceNorm",
        "flax.nnx.LayerNorm",
        "flax.nnx.MultiHeadAttention",  # has norms of its own
        "flax.nnx.RMSNorm",
        "flax.nnx.SpectralNorm",  # this one and the next normalize rows that are passed off as weights
        "flax.nnx.WeightNorm",
        "flax.nnx.nn",
        "flax.linen",
        "jax.nn.standardize",
    ),
    entries=(Entry(NORM, ("x", "scale", "bias", "epsilon")),),
    cases={
        "cases": Cases(ordinary, SIZES, covers=("coprime",)),
        "faint": Cases(faint, {"T": (3, 1), "D": (4,)}, draws=2, covers=("one",)),
        "distant": Cases(distant, {"T": (3, 5), "D": (4, 8)}, draws=1),
    },
    checks=(
        *output_and_gradient(NORM, wrt=["x", "scale", "bias"], points=(2, 1), tolerance=ROOT),
        output(NORM, points=1, name="rows with a tiny variance", cases="faint", tolerance=ROOT),
        output(NORM, points=1, name="rows far from zero", cases="distant", tolerance=ROOT),
    ),
)
