"""Rotary positions (Su et al. 2021): of a whole head or a part of it, and with the longer wavelengths of longer
contexts.

Shapes: B batch, T positions, H heads, K head width, P pairs of a head, K = 2 P.
"""

import math
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


def scaled(wavelengths_P: Float[Array, "P"], kind: str, numbers: tuple[float, ...], base: float) -> Float[Array, "P"]:
    """Wavelengths for contexts that are longer than those of pretraining, by `ModelConfig.scaling`.

    `linear` multiplies all of them (Chen et al. 2023). `llama3` leaves those that fit into the old context more than
    HIGH times, multiplies those that fit less than LOW times, and goes over from one to the other in between (Llama
    3.1, 2024). `yarn` does so evenly from the pair that fits FAST times to the one that fits SLOW times (Peng et al.
    2023); queries and keys are then multiplied by its last number.
    """
    if kind == "none":
        return wavelengths_P
    factor = numbers[0]
    if kind == "linear":
        return wavelengths_P * factor
    if kind == "llama3":
        low, high, context = numbers[1:]
        turns_P = context / (2 * math.pi * wavelengths_P)
        kept_P = jnp.clip((turns_P - low) / (high - low), 0, 1)  # of the old frequency
    else:
        pairs, context = len(wavelengths_P), numbers[3]
        fast, slow = (pairs * math.log(context / (turns * 2 * math.pi)) / math.log(base) for turns in numbers[1:3])
        first, last = max(math.floor(fast), 0), min(math.ceil(slow), 2 * pairs - 1)
        kept_P = 1 - jnp.clip((jnp.arange(pairs) - first) / (last - first or 0.001), 0, 1)
    return wavelengths_P / (kept_P + (1 - kept_P) / factor)
