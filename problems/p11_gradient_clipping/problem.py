"""Problem 11: clipping a gradient by its global norm, and reporting the norm."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.problem import EXACT, Cases, Check, Entry, Problem

MAX_NORM = 1.5


def tree(share: float, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Leaves of different lengths, scaled so that `MAX_NORM` is `share` times their global norm."""
    D, F = sizes["D"], sizes["F"]
    leaves = {
        "embedding": rng.standard_normal((F, D)),
        "kernel": 0.2 * rng.standard_normal((D, F)),
        "bias": 3 * rng.standard_normal(F),
        "scale": rng.standard_normal(1),
    }
    norm = sum(float((leaf**2).sum()) for leaf in leaves.values()) ** 0.5
    scaled = {key: (leaf * MAX_NORM / (share * norm)).astype("float32") for key, leaf in leaves.items()}
    return {**scaled, "max_norm": MAX_NORM}


def exact(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Leaves whose global norm, and the norm of each, has no rounding error: whole numbers of 1/128, with whole norms.

    x / 41 * 41 is not x in float32 for 1, 8 and 16. A small number added to this norm shows.
    """
    values = tree(1.0, sizes, rng)
    numbers = {"embedding": [16] * 4, "kernel": [8] * 4, "bias": [20], "scale": [1]}  # 32² + 16² + 20² + 1² = 41²
    for key, some in numbers.items():
        leaf = values[key].reshape(-1)
        leaf[:] = 0
        leaf[rng.choice(leaf.size, len(some), replace=False)] = some * rng.choice([-1, 1], len(some)) / 128
    return {**values, "max_norm": 41 / 128}


def zeros(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The leaves of `tree`, all zero."""
    values = tree(1.0, sizes, rng)
    return {key: 0 * value if key != "max_norm" else MAX_NORM for key, value in values.items()}


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """The tree as the entry receives it."""
    block = 'gradients["blocks"][0]'
    return {
        'gradients["embed"]': values["embedding"],
        f'{block}["kernel"]': values["kernel"],
        f'{block}["bias"]': values["bias"],
        'gradients["scale"]': values["scale"],
        "max_norm": values["max_norm"],
    }


SIZES = {"D": (2, 3), "F": (3, 4)}

PROBLEM = Problem(
    title="Gradient clipping",
    builds_on=(8,),
    forbids=(
        "optax.adaptive_grad_clip",
        "optax.clip_by_block_rms",
        "optax.clip_by_global_norm",
        "optax.per_example_global_norm_clip",
        "optax.per_example_layer_norm_clip",
        "optax.projections",
        "optax.contrib",
    ),
    entries=(Entry("clip_by_global_norm", ("gradients", "max_norm"), returns=("clipped", "norm")),),
    cases={
        "long": Cases(partial(tree, 0.3), SIZES, show=nested),
        "short": Cases(partial(tree, 4.0), SIZES, draws=1, show=nested),
        "exact": Cases(exact, SIZES, draws=1, show=nested),
        "zero": Cases(zeros, {"D": (2,), "F": (3,)}, draws=1, show=nested),
    },
    checks=(
        Check("norm before clipping", 1, "clipping", leaves="norm", cases="long"),
        Check("long gradients shortened", 2, "clipping", leaves="clipped", cases="long"),
        # A factor of 1 changes no bit.
        Check("short gradients unchanged", 1, "clipping", leaves="clipped", cases="short", tolerance=EXACT),
        Check(
            "gradient of exactly max_norm unchanged", 1, "clipping", leaves="clipped", cases="exact", tolerance=EXACT
        ),
        Check("gradient of zeros", 1, "clipping", cases="zero", tolerance=EXACT),
    ),
)
