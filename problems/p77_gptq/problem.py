"""Problem 77: weights of 4 bits, chosen by their effect on the outputs of a layer (GPTQ)."""

from collections.abc import Mapping
from typing import Any

from grader.checks import YES, exact
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

GPTQ, PACK, RESTORE = "gptq", "pack", "restore"
SECONDS = 1.2  # as on the page, of the CPU. The reference takes 0.06 s, and an inverse for each row takes 3 s
# As in float64. Roundings to codes are never as close to a tie.
DOUBLE = Tolerance(rtol=1e-10, atol=1e-10)
# As on the page. A program in float32 has other codes where a weight is nearly halfway between two, and an error that
# differs by 0.1%. Wrong programs have 20% more or pass here, and fail where codes are compared.
ERROR = Tolerance(rtol=0.02, atol=0.0, room=5)


def texts(rng: Any, N: int, D: int) -> Any:
    """Inputs of a layer, (N, D), whose features go together, as in a model, and differ in size."""
    import numpy as np

    causes = max(2, D // 8)
    return (rng.standard_normal((N, causes)) * np.exp(-2 * np.arange(causes) / causes)) @ rng.standard_normal(
        (causes, D)
    ) + 0.15 * rng.standard_normal((N, D))


def layer(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A matrix of weights and inputs, of the same size in every row and column."""
    D, F, N = sizes["D"], sizes["F"], sizes["N"]
    return {
        "W": rng.standard_normal((D, F)),
        "X": texts(rng, N, D),
        "bits": sizes["bits"],
        "group": sizes["group"],
    }


def dead(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A feature that is 0 in all rows of X, in the middle of a group, with the largest weights of all, and one that is
    nearly 0."""
    values = layer(sizes, rng)
    place = sizes["D"] // 2
    values["X"][:, place] = 0
    values["X"][:, 1] *= 1e-8
    values["W"][place] *= 3 / abs(values["W"][place])
    return values


def beyond(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Row 3 has the largest weights of its group, and the error of row 0 moves them beyond: feature 0 is four times
    feature 3. The group ends with that row."""
    values = layer(sizes, rng)
    D, F, N = sizes["D"], sizes["F"], sizes["N"]
    largest = 2 ** (sizes["bits"] - 1) - 1
    sign = (-1) ** rng.permutation(F)
    W, X = rng.uniform(-0.4, 0.4, (D, F)), rng.standard_normal((N, D))
    X[:, 0] = 4 * X[:, 3]
    W[0], W[3] = 0.35 * sign, largest * sign
    return {**values, "W": W * rng.uniform(0.5, 2, F), "X": X}


def zeros(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A column of zeros, and a column of numbers that are nearly 0."""
    values = layer(sizes, rng)
    values["W"][:, 0] = 0
    values["W"][:, 1] *= 1e-30
    return values


def codes(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    values = rng.integers(-7, 8, (sizes["D"], sizes["F"])).astype("int8")
    values[:2, 0] = -7, 7
    return {"codes": values}


def packed(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Bytes of two codes from -7 to 7 each, and scales. `group` is not D / J rounded up."""
    D, F, group = sizes["D"], sizes["F"], sizes["group"]
    first, second = rng.integers(-7, 8, (2, D // 2, F))
    return {
        "packed": (first % 16 + 16 * (second % 16)).astype("uint8"),
        "scale": 0.01 * 10 ** rng.uniform(-0.5, 0.5, (-(-D // group), F)),
        "group": group,
    }


def shapes(values: Mapping[str, Any]) -> dict[str, Any]:
    """The shapes of arrays that are many random numbers."""
    return {key: list(value.shape) if hasattr(value, "shape") else value for key, value in values.items()}


def error(case: Case, difference: Difference) -> str:
    if difference.path.endswith("half"):
        return "the error of the outputs is more than half of that of plain rounding"
    return (
        f"the error of the outputs is {difference.got} times that of plain rounding; {difference.expected} times is "
        "expected"
    )


SMALL = {"D": (5, 7), "F": (3,), "N": (11,), "bits": (4, 3, 2), "group": (2, 3)}
PROBLEM = Problem(
    title="Four bits with calibration",
    minutes=75,
    builds_on=(45,),
    entries=(
        Entry(GPTQ, ("W", "X", "bits", "group"), returns=("codes", "scale")),
        Entry(PACK, ("codes",)),
        Entry(RESTORE, ("packed", "scale", "group")),
    ),
    cases={
        "layers": Cases(layer, SMALL, draws=3),
        "one group": Cases(layer, {**SMALL, "D": (7,), "bits": (8,), "group": (13, 25)}, draws=1, covers=("coprime",)),
        "few rows": Cases(layer, {**SMALL, "D": (7,), "N": (2,)}, draws=2),
        "beyond": Cases(beyond, {"D": (7, 6), "F": (3,), "N": (23,), "bits": (4, 3), "group": (4,)}, draws=1),
        "dead": Cases(dead, {**SMALL, "D": (7,)}, draws=2),
        "zeros": Cases(zeros, {**SMALL, "D": (7,), "bits": (4, 3)}, draws=1, covers=("magnitudes",)),
        "ones": Cases(
            layer, {"D": (1,), "F": (1,), "N": (1,), "bits": (2,), "group": (1,)}, draws=1, covers=("one",)
        ),
        "codes": Cases(codes, {"D": (6, 4), "F": (3,)}, draws=1),
        "packed": Cases(packed, {"D": (10,), "F": (3,), "group": (6, 7)}, draws=1),
        # Larger than the blocks of 128 rows of the authors' program, and a group lies across the border of two.
        "across": Cases(
            layer, {"D": (150,), "F": (3,), "N": (60,), "bits": (4,), "group": (126,)}, draws=1, show=shapes
        ),
        "life": Cases(
            layer, {"D": (200,), "F": (8,), "N": (256,), "bits": (4,), "group": (64,)}, draws=1, show=shapes
        ),
        "wide": Cases(
            layer, {"D": (640,), "F": (2,), "N": (64,), "bits": (4,), "group": (128,)}, draws=1, show=shapes
        ),
    },
    checks=(
        exact("codes", 3, "quantizing", "codes", cases="layers", calls=(GPTQ,)),
        Check("scales", 1, "quantizing", leaves="scale", cases="layers", tolerance=DOUBLE, calls=(GPTQ,)),
        exact("W unchanged", 1, "quantizing", "W", cases="layers", calls=(GPTQ,),
              advice="Work on a copy: `W.copy()`."),
        Check("one group for all", 1, "quantizing", cases="one group", tolerance=DOUBLE, calls=(GPTQ,)),
        Check("fewer rows than features", 2, "quantizing", cases="few rows", tolerance=DOUBLE, calls=(GPTQ,)),
        Check("beyond the scale", 2, "quantizing", cases="beyond", tolerance=DOUBLE, calls=(GPTQ,)),
        Check("a dead feature", 2, "quantizing", cases="dead", tolerance=DOUBLE, calls=(GPTQ,)),
        Check("zeros and tiny weights", 1, "quantizing", cases="zeros", tolerance=DOUBLE, calls=(GPTQ,)),
        Check("one of everything", 1, "quantizing", cases="ones", tolerance=DOUBLE, calls=(GPTQ,)),
        Check("a group across blocks", 1, "quantizing", cases="across", tolerance=DOUBLE, calls=(GPTQ,),
              advice="A program in blocks of rows must correct all rows of a group before it computes their scale."),
        exact("half a byte for a code", 1, "packing", "packed", cases="codes", calls=(PACK,)),
        Check("restored weights", 2, "restoring", leaves="restored", cases="packed", tolerance=DOUBLE,
              calls=(RESTORE,)),
        Check(
            "error of the outputs", 2, "quantizing", leaves="error", cases="life", compare="at_most", tolerance=ERROR,
            read=True, in_words=error, calls=(GPTQ,),
            advice="`error` is that of X W by your codes, divided by that of codes which are rounded plainly.",
        ),
        exact(
            "under half of plain rounding", 1, "quantizing", "half", cases="life", read=True, words=YES,
            in_words=error, calls=(GPTQ,),
        ),
        Check(
            "work of 640 features", 2, "timing", leaves="error", cases="wide", compare="at_most", tolerance=ERROR,
            read=True, in_words=error, cpu_seconds=5, calls=(GPTQ,),
            advice="Invert a matrix of all features once, and not one for each row of W.",
        ),
    ),
)  # fmt: skip
