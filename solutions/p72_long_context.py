"""Problem 72, reference: the frequencies and the scale of YaRN (Peng et al. 2023), as the authors' program and the
library transformers compute them."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

FAST, SLOW = 32, 1  # turns within the original context


def yarn(K: int, base: float, factor: float, original: int, truncate: bool = True) -> tuple[Float[Array, "K/2"], float]:
    """The frequencies of all pairs, (K/2,), and the scale of rotated vectors."""
    frequencies_P = base ** (-np.arange(0, K, 2) / K)
    low, high = (K * math.log(original / (2 * math.pi * turns)) / (2 * math.log(base)) for turns in (FAST, SLOW))
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low = max(low, 0)
    slow_P = np.clip((np.arange(K // 2) - low) / (high - low), 0, 1)
    mixed_P = (1 - slow_P) * frequencies_P + slow_P * frequencies_P / factor
    return jnp.asarray(mixed_P, jnp.float32), 0.1 * math.log(factor) + 1


def rotate(
    x: Float[Array, "T H K"], positions: Int[Array, "T"], frequencies: Float[Array, "K/2"], scale: float = 1.0
) -> Float[Array, "T H K"]:
    """x with each pair rotated, and longer by `scale`."""
    angles_T1P = (positions[:, None] * frequencies)[:, None, :]
    cos, sin = scale * jnp.cos(angles_T1P), scale * jnp.sin(angles_T1P)
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1).astype(x.dtype)
