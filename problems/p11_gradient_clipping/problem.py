"""Problem 11: clipping a gradient by its global norm, and reporting the norm."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from grader.problem import EXACT, Cases, Check, Entry, Problem


def tree(share: float, max_norm: float, sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """Leaves of different lengths, scaled so that `max_norm` is `share` times their global norm, or far less: a power
    of ten."""
    import numpy as np

    D, F, L = sizes["D"], sizes["F"], sizes.get("L", 1)
    kernel = (sizes["heads"], D, F) if "heads" in sizes else (D, F)
    leaves = {
        "embedding": rng.standard_normal((F, D)),
        "kernel": 0.2 * rng.standard_normal((L, *kernel)),
        "bias": 3 / L * rng.standard_normal((L, F)),
        "scale": np.asarray(2 + abs(rng.standard_normal(() if "heads" in sizes else 1))),  # large enough to be missed
    }
    norm = sum(float((leaf**2).sum()) for leaf in leaves.values()) ** 0.5
    length = max_norm / share * 10.0 ** sizes.get("power", 0)
    scaled = {key: np.asarray(leaf * (length / norm), "float32") for key, leaf in leaves.items()}
    return {**scaled, "max_norm": max_norm}


def zeros(sizes: Mapping[str, int], rng: Any) -> dict[str, Any]:
    """The leaves of `tree`, all zero."""
    values = tree(1.0, 1.5, sizes, rng)
    return {key: 0 * value if key != "max_norm" else value for key, value in values.items()}


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """The tree as the entry receives it."""
    kernels, biases = values["kernel"], values["bias"]
    if len(kernels) > 1:
        inner = f"{len(kernels)} blocks, each with a kernel {kernels.shape[1:]} and a bias {biases.shape[1:]}"
        blocks = {'gradients["blocks"]': inner}
    else:
        blocks = {f'gradients["blocks"][0]["{name}"]': values[name][0] for name in ("kernel", "bias")}
    ends = {f'gradients["{name}"]': values[key] for name, key in (("embed", "embedding"), ("scale", "scale"))}
    return {**ends, **blocks, "max_norm": values["max_norm"]}


SIZES = {"D": (2, 3), "F": (3, 4)}
DEEP = {"D": (2,), "F": (3,), "L": (13, 17), "heads": (5,)}

PROBLEM = Problem(
    title="Gradient clipping",
    minutes=30,
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
        # The norms lie between `max_norm` and its square (long), or between it and its root (below, deep). In `long`,
        # that of a leaf is above `max_norm`, too: the longest of four has half of the norm or more.
        "long": Cases(partial(tree, 0.4, 4), {**SIZES, "power": (0, 17)}, show=nested, covers=("one",)),
        "short": Cases(partial(tree, 8 / 3, 4), SIZES, draws=1, show=nested),
        "below": Cases(partial(tree, 4 / 3, 4), SIZES, draws=1, show=nested),
        "deep": Cases(partial(tree, 0.7, 0.25), DEEP, draws=1, show=nested, covers=("layers", "axes", "coprime")),
        "zero": Cases(zeros, {"D": (2,), "F": (3,)}, draws=1, show=nested),
    },
    checks=(
        Check("norm before clipping", 1, "clipping", leaves="norm", cases="long"),
        Check("long gradients shortened", 2, "clipping", leaves="clipped", cases="long"),
        # A factor of 1 changes no bit.
        Check("short gradients unchanged", 1, "clipping", leaves="clipped", cases="short", tolerance=EXACT),
        Check(
            "gradient just below max_norm unchanged", 1, "clipping", leaves="clipped", cases="below", tolerance=EXACT
        ),
        Check("small max_norm, many leaves", 1, "clipping", cases="deep"),
        Check("gradient of zeros", 1, "clipping", cases="zero", tolerance=EXACT),
    ),
    without={
        "vocabulary": "a table of 50,257 rows is a longer sum of squares, in which nothing grows but the rounding"
    },
)
