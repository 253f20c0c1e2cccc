"""Problem 72: a longer context. The page is in pages/p72_long_context.md."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def yarn(
    K: int,
    base: float,
    factor: float,
    original: int,
    truncate: bool = True,
) -> tuple[Float[Array, "K/2"], float]:
    """Returns the frequencies (K/2,), in radians for each position, and the
    scale of rotated vectors.

    `original` is the context of the training, and `factor` says how many
    times as long the new one is.
    """
    raise NotImplementedError


def rotate(
    x: Float[Array, "T H K"],
    positions: Int[Array, "T"],
    frequencies: Float[Array, "K/2"],
    scale: float = 1.0,
) -> Float[Array, "T H K"]:
    """Rotates pair (i, i + K/2) of row t by the angle positions[t] · frequencies[i],
    and multiplies it by `scale`."""
    raise NotImplementedError
