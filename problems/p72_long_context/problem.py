"""Problem 72: a context longer than the one of the training, with YaRN."""

from collections.abc import Mapping
from typing import Any

from grader.checks import exact, jit, output, output_and_gradient
from grader.problem import Case, Cases, Check, Difference, Entry, Problem, Tolerance

YARN, ROTATE = "yarn", "rotate"
CONTEXT, K, BASE = 256, 32, 10_000.0  # of the model of two heads
STEPS, RATE = 400, 0.05  # of its training
ENOUGH = 0.95  # the weight on an answer that counts as found
LARGEST = 200_000  # a position


def settings(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The settings of a model and its extension. The base and the factor are not the usual ones."""
    return {
        "K": sizes["K"],
        "base": float(rng.integers(10, 900) * 1000),
        "factor": float(rng.integers(9, 60)) / 4,
        "original": int(rng.integers(900, 9000)),
    }


def whole(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {**settings(sizes, rng), "truncate": False}


def short(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A context in which no pair turns 32 times."""
    return {**settings(sizes, rng), "original": int(rng.integers(64, 150)), "truncate": bool(sizes["truncate"])}


def few(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """So few pairs that even the last one turns more than once in the original context: the ramp ends behind it."""
    values = settings(sizes, rng)
    return {**values, "original": int(rng.uniform(10, 90) * values["base"] ** 0.5)}


def unchanged(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    return {**settings(sizes, rng), "factor": 1.0}


def of_life(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Qwen3, DeepSeek-V3 and gpt-oss."""
    return (
        {"K": 128, "base": 1_000_000.0, "factor": 4.0, "original": 32_768},
        {"K": 64, "base": 10_000.0, "factor": 40.0, "original": 4_096},
        {"K": 64, "base": 150_000.0, "factor": 32.0, "original": 4_096, "truncate": False},
    )[sizes["model"]]


def vectors(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Vectors of H heads, at positions in no order."""
    import numpy as np

    T, H, K = (sizes[name] for name in "THK")
    return {
        "x": rng.standard_normal((T, H, K)).astype("float32"),
        "positions": rng.choice(np.arange(7, 60), T, replace=False).astype("int32"),
        "frequencies": np.sort(rng.uniform(0.001, 1, K // 2)).astype("float32")[::-1].copy(),
        "scale": float(rng.integers(11, 15)) / 10,
    }


def plain(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Vectors without a scale."""
    values = vectors(sizes, rng)
    del values["scale"]
    return values


def far(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Positions that bfloat16, with 8 significant bits, cannot represent."""
    values = vectors(sizes, rng)
    return {**values, "positions": (257 + 2 * rng.choice(100, sizes["T"], replace=False)).astype("int32")}


def large(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Positions beyond every table that a program could have made, with the largest that the page promises."""
    import numpy as np

    positions = rng.choice(np.arange(130_000, LARGEST), sizes["T"], replace=False).astype("int32")
    positions[-1] = LARGEST
    return {**vectors(sizes, rng), "positions": positions}


def trained() -> tuple[Any, Any]:
    """Returns the queries (K,) of both heads, trained on distances of 0 to CONTEXT - 1.

    At a distance d, a query (a, b) scores Σ aᵢ cos(d θᵢ) - bᵢ sin(d θᵢ): each is a logistic regression. That of the
    first head must choose d = 1 among all distances, and that of the second must be above CONTEXT other scores of 0 at
    every distance.
    """
    import numpy as np

    angles = np.arange(CONTEXT)[:, None] * BASE ** (-np.arange(0, K, 2) / K)
    waves = np.concatenate([np.cos(angles), -np.sin(angles)], axis=1)

    def previous(scores: Any) -> Any:
        slope = np.exp(scores - scores.max())
        slope /= slope.sum()
        slope[1] -= 1
        return slope

    def matching(scores: Any) -> Any:
        return -1 / (1 + np.exp(scores) / CONTEXT) / CONTEXT

    queries = []
    for slope, decay in ((previous, 0.001), (matching, 0.003)):
        query, mean, square = np.zeros((3, K))
        for step in range(1, STEPS + 1):  # Adam
            gradient = waves.T @ slope(waves @ query) + decay * query
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.99 * square + 0.01 * gradient**2
            query = query - RATE * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
        queries.append(query.astype("float32"))
    return queries[0], queries[1]


def text(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The trained model, and the places of Q keys in a text that is `times` as long as its context."""
    import numpy as np

    previous, matching = trained()
    width = CONTEXT * sizes["times"] // sizes["Q"]
    places = np.arange(sizes["Q"]) * width + rng.integers(0, width - 2, sizes["Q"])
    factor = float(sizes["times"])
    return {"previous": previous, "matching": matching, "places": places.astype("int32"), "factor": factor}


def asked(values: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a case, without the weights of the model."""
    return {"places": values["places"], "factor": values["factor"]}


def missed(_: Case, wrong: Difference) -> str:
    """A sentence on keys that were not found."""
    return f"the model misses {wrong.got} keys, expected {wrong.expected}"


# Frequencies are compared by their digits, because those of slow pairs are far below 1. In float32, powers are off by
# up to 2e-6 of their size.
DIGITS = Tolerance(rtol=1e-4, atol=0.0)
# A float32 of 100,000 to 200,000 is off by up to 0.008 radians, and a program may round twice. Angles of a wrong
# position are off by a radian.
ANGLES = Tolerance(rtol=0.1, atol=0.1, room=2)
# The result has 8 significant bits, and a program may round each product to that. Angles in bfloat16 are off by half a
# radian or more.
BFLOAT16 = Tolerance(rtol=0.04, atol=0.04, room=2)


def extended(name: str, points: int, cases: str) -> Check:
    """A check of frequencies and scale."""
    return Check(name, points, "extending", cases=cases, tolerance=DIGITS, calls=(YARN,))


MANY = {"K": (16, 20, 34)}
SIZES = {"T": (5, 4), "H": (3, 2), "K": (8, 6)}

PROBLEM = Problem(
    title="A longer context",
    minutes=60,
    builds_on=(37, 40),
    entries=(
        Entry(YARN, ("K", "base", "factor", "original", "truncate"), returns=("frequencies", "scale")),
        Entry(ROTATE, ("x", "positions", "frequencies", "scale")),
    ),
    cases={
        "cases": Cases(settings, MANY, draws=3),
        "whole": Cases(whole, MANY, draws=2),
        "short": Cases(short, {"K": (16, 22), "truncate": (1, 0)}, draws=3),
        "unchanged": Cases(unchanged, {"K": (12,)}, draws=1),
        "few": Cases(few, {"K": (2, 4)}, draws=2),
        "models": Cases(of_life, {"model": (0, 1, 2)}, draws=3),
        "vectors": Cases(vectors, SIZES, draws=1),
        "plain": Cases(plain, {"T": (4,), "H": (2,), "K": (6,)}, draws=1),
        "one pair": Cases(vectors, {"T": (1,), "H": (1,), "K": (2,)}, draws=1, covers=("one",)),
        "large": Cases(large, {"T": (5,), "H": (3,), "K": (8,)}, draws=1),
        "far": Cases(far, {"T": (5,), "H": (3,), "K": (8,)}, draws=1),
        "trained": Cases(text, {"times": (4,), "Q": (16,)}, draws=1, show=asked),
    },
    without={"coprime": "K is twice the number of frequencies"},
    checks=(
        extended("frequencies and scale", 3, "cases"),
        extended("a range that is not rounded", 1, "whole"),
        extended("a short context", 1, "short"),
        extended("a factor of 1", 1, "unchanged"),
        extended("one or two frequencies", 1, "few"),
        extended("three models", 1, "models"),
        *output_and_gradient(
            ROTATE, wrt=["x"], points=(2, 1), names=("rotated vectors", "gradient"), cases="vectors"
        ),
        output(ROTATE, points=1, name="one pair", cases="one pair"),
        output(ROTATE, points=1, name="large positions", cases="large", tolerance=ANGLES),
        Check(
            "x in bfloat16", 1, "half_precision", leaves="output", cases="far", tolerance=BFLOAT16, calls=(ROTATE,)
        ),
        jit(ROTATE, points=1, cases="plain"),
        exact(
            "keys at four times the context", 3, "finding", "missed", cases="trained", in_words=missed,
            advice="A key is found if its answer has more than 95% of the weight. The model was trained on 256 "
            "positions, with the frequencies of `rope`, and reads 1,024 here.",
        ),
    ),
)  # fmt: skip
