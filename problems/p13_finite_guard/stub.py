"""Problem 13: a guard against non-finite updates.

The page is in pages/p13_finite_guard.md.
"""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree


def finite_guard(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """The transformation `inner`, except that it skips each step whose gradients
    hold a NaN or an infinity.

    Its state has a field `skipped`, an int32 scalar: the number of steps skipped so
    far.
    """
    raise NotImplementedError


def first_nonfinite(tree: PyTree) -> str | None:
    """The path of the first leaf that holds a NaN or an infinity, as written by
    `jax.tree_util.keystr`; None if none does."""
    raise NotImplementedError
