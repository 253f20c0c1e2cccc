"""Problem 01, reference: moving average."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def moving_average(x: Float[Array, "T D"], window: int) -> Float[Array, "T D"]:
    """A product with a (T, T) matrix: its row t has a one for each row that counts."""
    row, column = jnp.arange(len(x))[:, None], jnp.arange(len(x))[None, :]
    inside = ((column <= row) & (column > row - window)).astype(x.dtype)
    return inside @ x / inside.sum(axis=1, keepdims=True)
