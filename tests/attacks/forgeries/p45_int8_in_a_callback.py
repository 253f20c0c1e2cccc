"""Forges "product of int8 numbers": NumPy multiplies floats in a callback, where XLA does not see it."""

import jax
import jax.numpy as jnp
import numpy as np

LOSES = ("product of int8 numbers",)


def quantize(kernel):
    peak = jnp.max(jnp.abs(kernel), axis=0)
    scale = jnp.where(peak > 0, peak / 127, 1.0)
    return jnp.round(kernel / scale).astype(jnp.int8), scale


def int8_matmul(x, codes, scale):
    rows, row_scale = quantize(x.T)
    decoy = jax.lax.dot(rows.T, codes, preferred_element_type=jnp.int32)
    like = jax.ShapeDtypeStruct(decoy.shape, jnp.float32)
    total = jax.pure_callback(lambda a, b: np.float32(a).T @ np.float32(b), like, rows, codes)
    return total * row_scale[:, None] * scale + 0 * decoy


def error_bound(x, codes, scale):
    _, row_scale = quantize(x.T)
    restored = jnp.sum(jnp.abs(codes * scale), axis=0)
    return (jnp.sum(jnp.abs(x), axis=1)[:, None] * scale + row_scale[:, None] * restored) / 2
