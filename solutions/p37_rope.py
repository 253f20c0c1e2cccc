"""Problem 37, reference: rotary positions."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def rope(
    x: Float[Array, "T H K"], positions: Int[Array, "T"], base: float = 10_000.0, pairing: str = "halves"
) -> Float[Array, "T H K"]:
    """Rotates pair i by the angle position · base^(-2i/K) (Su et al. 2021, equation 15). P pairs, K = 2 P."""
    K = x.shape[-1]
    frequencies_P = base ** -(jnp.arange(0, K, 2, dtype=jnp.float32) / K)
    angles_T1P = (positions[:, None] * frequencies_P)[:, None, :]
    cos, sin = jnp.cos(angles_T1P), jnp.sin(angles_T1P)
    if pairing == "adjacent":
        a, b = x[..., 0::2], x[..., 1::2]
        out = jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)
    else:
        a, b = x[..., : K // 2], x[..., K // 2 :]
        out = jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    return out.astype(x.dtype)
