"""As model files have it: full rows of cosines and sines in the dtype of x, `rotate_half`, and clamped lines in JAX."""

import math

import jax.numpy as jnp


def find_correction_dim(rotations, dim, base, length):
    return dim * math.log(length / (rotations * 2 * math.pi)) / (2 * math.log(base))


def yarn(K, base, factor, original, truncate=True):
    pos_freqs = base ** (jnp.arange(0, K, 2, dtype=jnp.float32) / K)
    low, high = find_correction_dim(32, K, base, original), find_correction_dim(1, K, base, original)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, K - 1)
    if low == high:
        high += 0.001
    keep = 1 - jnp.clip((jnp.arange(K // 2, dtype=jnp.float32) - low) / (high - low), 0, 1)
    return 1 / (factor * pos_freqs) * (1 - keep) + 1 / pos_freqs * keep, 1.0 if factor <= 1 else 0.1 * math.log(
        factor
    ) + 1.0


def rotate_half(x):
    half = x.shape[-1] // 2
    return jnp.concatenate([-x[..., half:], x[..., :half]], axis=-1)


def rotate(x, positions, frequencies, scale=1.0):
    angles = jnp.tile(positions.astype(jnp.float32)[:, None] * frequencies[None, :], 2)
    cos = (jnp.cos(angles) * scale).astype(x.dtype)[:, None]
    sin = (jnp.sin(angles) * scale).astype(x.dtype)[:, None]
    return x * cos + rotate_half(x) * sin
