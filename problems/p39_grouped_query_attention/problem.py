"""Problem 39: grouped-query attention."""

from collections.abc import Mapping
from typing import Any

from grader.checks import causality, output_and_gradient, parameters
from grader.problem import Cases, Check, Entry, Problem, Tolerance

GQA = "GQA"


def activations(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Activations (T, D) for G heads of keys and values, each of which serves R heads of queries."""
    H, T = sizes["G"] * sizes["R"], sizes["T"]
    D = H * sizes["K"]
    return {
        "d_model": D,
        "num_heads": H,
        "num_kv_heads": sizes["G"],
        "rope_base": round(rng.uniform(60, 160), 1),
        "x": rng.standard_normal((T, D)).astype("float32"),
    }


def wide(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """With heads whose width has nothing to do with that of the model."""
    x = rng.standard_normal((sizes["T"], sizes["D"])).astype("float32")
    return {**activations(sizes, rng), "d_model": sizes["D"], "x": x, "head_dim": sizes["K"]}


def masked(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Also a causal mask that hides about half of the earlier positions."""
    import numpy as np

    T = sizes["T"]
    mask = np.tril(rng.random((T, T)) < 0.5) | np.eye(T, dtype=bool)
    mask[-1, 0], mask[-1, 1] = True, False  # unlike in any mask of a window
    return {**activations(sizes, rng), "mask": mask}


# The sums of one position may be taken in another order than those of all positions together.
STEP = Tolerance(rtol=1e-4, atol=1e-4)
# With a third array of keys or values the cache has 1.5 times as many bytes. It has 2.5 times as many with the inputs
# in 20 bits for a number, the fewest that keep the outputs within the tolerance of a step.
BYTES = Tolerance(rtol=0.1, atol=64, room=3)
SIZES = {"T": (5, 7), "G": (2, 4), "R": (3,), "K": (4,)}

PROBLEM = Problem(
    title="Grouped-query attention",
    minutes=125,
    builds_on=(3, 30, 37),
    entries=(Entry(GQA, ("x",), construct=("d_model", "num_heads", "num_kv_heads", "rope_base", "head_dim")),),
    cases={
        "cases": Cases(activations, SIZES, draws=2),
        "masked": Cases(masked, {**SIZES, "G": (1,)}, draws=1, covers=("one",)),
        # One head of keys and values for all, and no two sizes that share a factor.
        "wide": Cases(
            wide, {"T": (5,), "G": (1,), "R": (3,), "K": (4, 8), "D": (7,)}, draws=2, covers=("coprime", "one")
        ),
        # More steps than a table of 128 positions has, or a position in 8 bits.
        "long": Cases(activations, {"T": (131,), "G": (2,), "R": (8,), "K": (4,)}, draws=1),
    },
    row_by_row={"decoding": ["x"]},
    checks=(
        parameters(GQA, points=1),
        *output_and_gradient(GQA, wrt="parameters", points=(3, 1)),
        *output_and_gradient(
            GQA, wrt="parameters", points=(1, 1), cases="wide",
            names=("heads of another width", "heads of another width, gradient"),
        ),
        Check(
            "heads of another width, with a cache", 1, "decoding", {"entry": GQA}, leaves="output", cases="wide",
            tolerance=STEP,
        ),
        causality(GQA, argument="x", points=1),
        Check("another mask", 1, "with_mask", {"entry": GQA}, leaves="output", cases="masked"),
        Check("steps with a cache", 2, "decoding", {"entry": GQA}, leaves="output", tolerance=STEP),
        Check(
            "one compilation", 1, "decoding", {"entry": GQA}, leaves="output", tolerance=STEP, traced=True,
            advice="The step cannot be compiled once for all positions. Keep the position in the cache, as an array.",
        ),
        Check(
            "size of the "
            "cache", 2, "decoding", {"entry": GQA}, leaves="program.cache_bytes", cases="long", compare="at_most",
            tolerance=BYTES, values_tolerance=STEP,
            advice="The cache must hold the num_kv_heads heads of keys and values only. Repeat them for the heads of "
            "queries when you read them.",
        ),
    ),
)  # fmt: skip
