"""Problem 04, reference: layer normalization, by hand."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def layer_norm(
    x: Float[Array, "T D"], scale: Float[Array, "D"], bias: Float[Array, "D"], epsilon: float
) -> Float[Array, "T D"]:
    """Normalizes each row to mean 0 and variance 1, then scales and shifts it (Ba, Kiros and Hinton 2016)."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    variance = jnp.mean(centred**2, axis=-1, keepdims=True)
    return centred / jnp.sqrt(variance + epsilon) * scale + bias
