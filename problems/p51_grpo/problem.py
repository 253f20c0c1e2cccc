"""Problem 51: group-relative policy optimization."""

from collections.abc import Mapping
from typing import Any

from grader.checks import output
from grader.problem import Cases, Check, Entry, Problem

ADVANTAGES, LOSS = "group_advantages", "grpo_loss"
NEAR, FAR = 0.08, 0.6  # log-ratios inside and outside of the clipping range


def rewards(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rewards of groups whose means and spreads differ."""
    import numpy as np

    P, C = sizes["P"], sizes["C"]
    spread = rng.uniform(0.5, 1.5, (P, 1)) * (1 + np.arange(P)[:, None])
    return {"rewards": (rng.standard_normal((P, 1)) + spread * rng.standard_normal((P, C))).astype("float32")}


def equal(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Groups of equal rewards, each but one with a mean that float32 does not hold exactly, and one group with a
    winner."""
    import numpy as np

    P, C = sizes["P"], sizes["C"]
    table = np.repeat(rng.choice(_inexact(C), (P, 1)), C, axis=1)
    table[0] = 0
    table[-1, rng.integers(C)] += 1
    return {"rewards": table.astype("float32")}


def small(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """One group of very small rewards, but ten times as far apart as rounding errors can be."""
    return {"rewards": (1e-5 * (1 + rewards(sizes, rng)["rewards"])).astype("float32")}


def _inexact(C: int) -> Any:
    """Rewards whose sum over C, in sequence, divided by C is another number in float32."""
    import numpy as np

    candidates = np.linspace(0.05, 3.0, 400, dtype=np.float32)
    means = np.cumsum(np.repeat(candidates[:, None], C, axis=1), axis=1, dtype=np.float32)[:, -1] / np.float32(C)
    return candidates[means != candidates]


def rollouts(sizes: Mapping[str, int], rng: Any, padding: float = 1.0) -> dict[str, Any]:
    """Continuations of different lengths. Each has log-ratios inside, below and above the clipping range."""
    import numpy as np

    B, T = sizes["B"], sizes["T"]
    lengths = rng.permutation(np.linspace(4, T - 2, B).astype(int))
    start = rng.integers(1, 3, B)
    places = np.arange(T)
    sampled = (places >= start[:, None]) & (places < (start + lengths)[:, None])
    sizes_of_ratio = rng.choice([-FAR, -NEAR, NEAR, FAR], (B, T))
    for row, first in enumerate(start):
        sizes_of_ratio[row, first : first + 4] = rng.permutation([-FAR, -NEAR, NEAR, FAR])
    ratio = sizes_of_ratio * rng.uniform(0.7, 1.3, (B, T))
    old = -rng.uniform(0.7, 3.0, (B, T))
    new = old + ratio
    base = new + rng.choice([-1, 1], (B, T)) * rng.uniform(0.2, 0.9, (B, T))
    anything = padding * rng.standard_normal((3, B, T))
    new, old, base = np.where(sampled, (new, old, base), anything).astype("float32")
    advantages = rng.uniform(0.4, 1.6, B) * rng.permutation(np.where(np.arange(B) % 2, 1, -1))
    return {
        "new": new,
        "old": old,
        "base": base,
        "sampled": sampled,
        "advantages": advantages.astype("float32"),
        "clip_ratio": round(rng.uniform(0.15, 0.3), 3),
        "kl_weight": 0.4,
    }


def wild(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Padding with numbers so far apart that the exponential of their difference is infinite. One row is nothing else.

    The KL term has no weight: 0 times infinity is NaN.
    """
    import numpy as np

    values = rollouts(sizes, rng)
    values["sampled"][0] = False
    sign = rng.choice([-1, 1], values["new"].shape) * np.float32(1e30)
    for key, factor in {"new": sign, "old": -sign, "base": -sign}.items():
        values[key] = np.where(values["sampled"], values[key], factor).astype("float32")
    return {**values, "kl_weight": 0.0}


def empty(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Rows whose continuations are all empty."""
    import numpy as np

    values = rollouts(sizes, rng)
    return {**values, "sampled": np.zeros_like(values["sampled"])}


OPTIONS = {"entry": LOSS, "wrt": ["new"]}
SIZES = {"B": (3, 4), "T": (8, 11)}

PROBLEM = Problem(
    title="GRPO",
    minutes=70,
    builds_on=(7, 29),
    entries=(
        Entry(ADVANTAGES, ("rewards",)),
        Entry(LOSS, ("new", "old", "base", "sampled", "advantages", "clip_ratio", "kl_weight")),
    ),
    cases={
        "groups": Cases(rewards, {"P": (2, 3), "C": (5, 7)}, draws=2, covers=("coprime",)),
        "small": Cases(small, {"P": (1,), "C": (6,)}, draws=1, covers=("one",)),
        "equal": Cases(equal, {"P": (8,), "C": (7,)}, draws=1),
        "rollouts": Cases(rollouts, SIZES, draws=2),
        "wild": Cases(wild, SIZES, draws=1, covers=("magnitudes",)),
        "empty": Cases(empty, {"B": (1,), "T": (8, 11)}, draws=1),
    },
    checks=(
        output(ADVANTAGES, points=2, name="advantages", cases="groups"),
        output(ADVANTAGES, points=1, name="a group of equal rewards teaches nothing", cases="equal"),
        output(ADVANTAGES, points=1, name="advantages of small rewards", cases="small"),
        Check("loss", 3, "values", OPTIONS, "output", cases="rollouts"),
        Check("gradient", 2, "values", OPTIONS, "gradient", cases="rollouts"),
        Check(
            "padding can hold anything", 1, "values", OPTIONS, cases="wild",
            advice="Where `sampled` is False, the exponentials overflow. Replace the differences by 0 there *before* "
            "the exponential: a mask after it comes too late, because infinity times 0 is NaN.",
        ),
        Check("no sampled token gives 0", 1, "values", OPTIONS, cases="empty"),
    ),
)  # fmt: skip
