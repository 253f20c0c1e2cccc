"""Problem 02: one head of causal self-attention."""

from collections.abc import Mapping
from typing import Any

from grader.checks import causality, output, output_and_gradient
from grader.problem import Cases, Check, Entry, Problem, Tolerance

ATTENTION = "causal_attention"


def normal(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Unit-normal queries, keys and values. Query 2 and key 1 are zero: scores that are exactly 0 are not hidden
    scores."""
    values = {name: rng.standard_normal((sizes["T"], sizes["K"])).astype("float32") for name in ("q", "k", "v")}
    values["q"][2] = values["k"][1] = 0
    return values


def one(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """A story of one token, which has nothing but itself to attend to."""
    return {name: rng.standard_normal((1, sizes["K"])).astype("float32") for name in ("q", "k", "v")}


def large(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Scores whose exponential overflows in float32. The largest of query 0 is hidden from it."""
    values = normal(sizes, rng)
    values["q"][0], values["k"][0], values["k"][-1] = 1, -1, 1
    return {**values, "q": values["q"] * 100, "k": values["k"] * 100}


def far(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Scores so far apart that each query has one weight of 1, so that rounding changes no gradient. The largest of
    query 0 is hidden from it."""
    import numpy as np

    T, K = sizes["T"], sizes["K"]
    q = rng.integers(30, 99, (T, K)) * np.where(np.arange(T) % 2, -1, 1)[:, None]
    k = np.repeat([[*rng.permutation(T - 1), T]], K, axis=0).T * 50 - 75
    return {"q": q.astype("float32"), "k": k.astype("float32"), "v": normal(sizes, rng)["v"]}


# Neighboring float32 numbers near 10,000 are 0.001 apart, so the scores themselves, and with them the weights, are that
# rough. A gradient there is a difference of rounded numbers times keys of some hundreds.
SATURATED = Tolerance(rtol=2e-3, atol=2e-3)
SIZES = {"T": (4, 7, 11), "K": (3, 5)}

PROBLEM = Problem(
    title="Causal attention, one head",
    minutes=30,
    entries=(Entry(ATTENTION, ("q", "k", "v")),),
    cases={
        "cases": Cases(normal, SIZES, covers=("coprime",)),
        "large": Cases(large, SIZES, draws=1),
        "far": Cases(far, {"T": (4, 7), "K": (3, 5)}, draws=2),
        "one": Cases(one, {"K": (3, 5)}, draws=1, covers=("one",)),
    },
    checks=(
        *output_and_gradient(ATTENTION, wrt=["q", "k", "v"], points=(1, 1)),
        output(ATTENTION, points=1, name="a story of one token", cases="one"),
        causality(ATTENTION, argument="v", points=2),
        output(ATTENTION, points=1, name="large scores stay finite", cases="large", tolerance=SATURATED),
        Check("gradient of large scores", 1, "values", {"entry": ATTENTION, "wrt": ["q", "k", "v"]}, "gradient", "far",
              tolerance=SATURATED),
    ),
)  # fmt: skip
