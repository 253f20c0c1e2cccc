"""Problem 04: layer normalisation, by hand. The page is in pages/p04_layer_norm.md."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def layer_norm(
    x: Float[Array, "T D"], scale: Float[Array, "D"], bias: Float[Array, "D"], epsilon: float
) -> Float[Array, "T D"]:
    """Each row of x brought to mean 0 and variance 1, then multiplied by scale and shifted by bias.

    x: (T, D); scale, bias: (D,); epsilon is added to the variance. Returns (T, D).
    """
    raise NotImplementedError
