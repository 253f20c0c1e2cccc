"""Rotary positions (Su et al. 2021).

Shapes: B batch, T positions, H heads, K head width, P pairs of a head, K = 2 P.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Rotate = Callable[[Array, Array, float], Array]  # compared by identity in a jitted function: one object for a model


def rotate(x_BTHK: Float[Array, "B T H K"], positions: Int[Array, "*B T"], base: float) -> Float[Array, "B T H K"]:
    """Rotates pairs (i, i + K/2) by an angle proportional to the position: of all rows, or of each row, below T."""
    return turned(x_BTHK, positions, wavelengths(x_BTHK.shape[-1], base))


def wavelengths(width: int, base: float) -> Float[Array, "P"]:
    """The positions per radian of each pair of a head."""
    half = width // 2
    return base ** (jnp.arange(half, dtype=jnp.float32) / half)


def turned(
    x_BTHK: Float[Array, "B T H K"], positions: Int[Array, "*B T"], wavelengths_P: Float[Array, "P"]
) -> Float[Array, "B T H K"]:
    """Rotates pairs (i, i + K/2) by `position / wavelength`. Positions of each row `(B, T)` must be below T."""
    T, half = x_BTHK.shape[1], x_BTHK.shape[-1] // 2
    angles_TP = (positions if positions.ndim == 1 else jnp.arange(T))[:, None].astype(jnp.float32) / wavelengths_P[None]
    cos_TP, sin_TP = (f(angles_TP).astype(x_BTHK.dtype) for f in (jnp.cos, jnp.sin))
    if positions.ndim == 1:
        cos, sin = (table_TP[None, :, None, None, :] for table_TP in (cos_TP, sin_TP))
    else:  # from tables: XLA would compute cosines and sines again for each number of each head
        cos, sin = (table_TP[positions][:, :, None, None, :] for table_TP in (cos_TP, sin_TP))
    pairs = x_BTHK.reshape(*x_BTHK.shape[:-1], 2, half)
    swapped = jnp.flip(pairs, -2) * jnp.concatenate([-sin, sin], axis=-2)
    return (pairs * cos + swapped).reshape(x_BTHK.shape)
