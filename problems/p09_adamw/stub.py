"""Problem 09: AdamW as an optax transformation. The page is in pages/p09_adamw.md."""

import jax
import jax.numpy as jnp
import optax


def adamw(
    learning_rate: float, b1: float, b2: float, epsilon: float, weight_decay: float
) -> optax.GradientTransformation:
    """AdamW: Adam with decoupled weight decay for every parameter.

    `update(gradients, state, parameters)` returns the pair (updates to add to the parameters, new state).
    """
    raise NotImplementedError
