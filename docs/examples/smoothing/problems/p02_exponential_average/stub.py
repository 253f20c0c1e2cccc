"""Problem 02: exponential average. The page is in pages/p02_exponential_average.md."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def exponential_average(x: Float[Array, "T D"], decay: float) -> Float[Array, "T D"]:
    """Row 0 of x (T, D), then `decay` times the row of the output before plus `1 - decay` times the row of x."""
    raise NotImplementedError
