"""Problem 13: a guard against non-finite updates. The page is in pages/p13_finite_guard.md."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree


def finite_guard(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """`inner`, but a step with any NaN or infinity in its gradients is not taken.

    Its state has a field `skipped`, an int32 scalar: how many steps were not taken.
    """
    raise NotImplementedError


def first_nonfinite(tree: PyTree) -> str | None:
    """The path of the first leaf that holds a NaN or an infinity, as `jax.tree_util.keystr` writes it; None if none does."""
    raise NotImplementedError
