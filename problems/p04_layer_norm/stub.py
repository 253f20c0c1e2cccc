"""Problem 04: layer normalization, by hand. The page is in pages/p04_layer_norm.md."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def layer_norm(
    x: Float[Array, "T D"],
    scale: Float[Array, "D"],
    bias: Float[Array, "D"],
    epsilon: float,
) -> Float[Array, "T D"]:
    """Normalizes each row of x to mean 0 and variance 1, then
    multiplies by scale and adds bias.

    x: (T, D). scale, bias: (D,). epsilon: keeps the division finite. Returns (T, D).
    """
    raise NotImplementedError
