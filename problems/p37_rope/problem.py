"""Problem 37: rotary positions."""

from collections.abc import Mapping
from typing import Any

from grader.checks import jit, output, output_and_gradient
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

ROPE = "rope"


def halves(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Vectors of H heads at the positions from 0 on. The base is not the usual one."""
    import numpy as np

    return {
        "x": rng.standard_normal((sizes["T"], sizes["H"], sizes["K"])).astype("float32"),
        "positions": np.arange(sizes["T"], dtype=np.int32),
        "base": float(rng.choice([100, 500, 2000])),
        "pairing": "halves",
    }


def adjacent(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {**halves(sizes, rng), "pairing": "adjacent"}


def later(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Positions far from 0 and in no order."""
    import numpy as np

    positions = rng.choice(np.arange(7, 40), sizes["T"], replace=False).astype("int32")
    return {**halves(sizes, rng), "positions": positions, "base": 10_000.0}


def cached(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Queries and keys, and how far all positions are moved."""
    values = halves(sizes, rng)
    return {"q": values["x"], "k": rng.permuted(values["x"], axis=-1), "base": values["base"], "shift": 6}


def far(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Positions that bfloat16, with 8 significant bits, cannot represent."""
    positions = 257 + 2 * rng.choice(100, sizes["T"], replace=False)
    return {**halves(sizes, rng), "positions": positions.astype("int32"), "base": 10_000.0}


LARGEST = 100_000


def large(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Positions beyond every table that a program could have made, with the largest that the page promises. Llama 3's
    base."""
    import numpy as np

    positions = rng.choice(np.arange(90_000, LARGEST), sizes["T"], replace=False)
    positions[-1] = LARGEST
    return {**halves(sizes, rng), "positions": positions.astype("int32"), "base": 500_000.0}


def at_large_positions(_: Case, wrong: Difference) -> str:
    """Words for angles that do not change."""
    if wrong.path == "output.is_that_of_other_positions":
        return "the result is the same for positions 10,000 smaller; is there a table that ends before them?"
    return ""


# A float32 of 10,000 to 100,000 is off by up to 0.004 radians, and a frequency computed with `exp` and `log` by a few
# times as much. Angles of a wrong position are off by a radian.
ANGLES = Tolerance(rtol=0.1, atol=0.1, room=2)
# The result has 8 significant bits, and a program may round each product to that. Angles in bfloat16 are off by half a
# radian or more.
BFLOAT16 = Tolerance(rtol=0.04, atol=0.04, room=2)
SIZES = {"T": (5, 4), "H": (3, 2), "K": (8, 6)}

PROBLEM = Problem(
    title="Rotary positions",
    minutes=50,
    builds_on=(2, 3),
    entries=(Entry(ROPE, ("x", "positions", "base", "pairing")),),
    cases={
        "halves": Cases(halves, SIZES, draws=2, covers=("coprime",)),
        "adjacent": Cases(adjacent, SIZES, draws=2),
        "later": Cases(later, SIZES, draws=2),
        "one pair": Cases(later, {"T": (1,), "H": (1,), "K": (2,)}, draws=1, covers=("one",)),
        "large": Cases(large, {"T": (4, 5), "H": (3,), "K": (8,)}, draws=1),
        "cached": Cases(cached, SIZES, draws=1),
        "far": Cases(far, {"T": (4, 5), "H": (3,), "K": (8,)}, draws=1),
    },
    checks=(
        *output_and_gradient(
            ROPE, wrt=["x"], points=(2, 1), names=("pairs of halves", "gradient, pairs of halves"), cases="halves"
        ),
        *output_and_gradient(
            ROPE, wrt=["x"], points=(2, 1), names=("adjacent pairs", "gradient, adjacent pairs"), cases="adjacent"
        ),
        output(ROPE, points=1, name="later positions", cases="later"),
        output(ROPE, points=1, name="one pair", cases="one pair"),
        Check("large "
            "positions", 1, "large", leaves="output", cases="large", tolerance=ANGLES, in_words=at_large_positions),
        Check(
            "one position at a time", 1, "scores", leaves="cached", cases="cached",
            advice="`cached` are the scores of the last query with keys that were rotated one by one, each with the "
            "array of its own position. They must equal the scores of a full pass.",
        ),
        Check(
            "scores depend on the distance", 1, "scores", leaves="shifted", cases="cached",
            advice="`shifted` are the scores (H, T, T) after all positions have grown by 6. They must equal those from "
                "0 on.",
        ),
        Check("x in bfloat16", 1, "half_precision", leaves="output", cases="far", tolerance=BFLOAT16),
        jit(ROPE, points=1, cases="later"),
    ),
)  # fmt: skip
