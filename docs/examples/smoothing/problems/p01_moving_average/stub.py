"""Problem 01: moving average. The page is in pages/p01_moving_average.md."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def moving_average(x: Float[Array, "T D"], window: int) -> Float[Array, "T D"]:
    """The mean of each row of x (T, D) and the `window - 1` rows before it, as far as they exist."""
    raise NotImplementedError
