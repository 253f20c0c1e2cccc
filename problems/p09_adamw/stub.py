"""Problem 09: AdamW as an optax transformation. The page is in pages/p09_adamw.md."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree


def adamw(
    learning_rate: float,
    b1: float,
    b2: float,
    epsilon: float,
    weight_decay: float,
    mask: Callable[[PyTree], PyTree] | None = None,
) -> optax.GradientTransformation:
    """AdamW: Adam with decoupled weight decay, for every parameter or
    for those that `mask` says.

    `update(gradients, state, parameters)` returns the pair (updates to add to
    the parameters, new state).
    """
    raise NotImplementedError


def decayed(parameters: PyTree) -> PyTree:
    """A mask: True for each parameter with at least two axes, False for the others."""
    raise NotImplementedError
