"""Forges "product of int8 numbers": int8 products with identities make int32 arrays of the codes, which floats then multiply."""

import jax
import jax.numpy as jnp

LOSES = ("product of int8 numbers",)


def quantize(kernel):
    peak = jnp.max(jnp.abs(kernel), axis=0)
    scale = jnp.where(peak > 0, peak / 127, 1.0)
    return jnp.round(kernel / scale).astype(jnp.int8), scale


def int8_matmul(x, codes, scale):
    rows, row_scale = quantize(x.T)
    unit = jnp.eye(len(codes), dtype=jnp.int8)
    wide = jax.lax.dot(unit, codes, preferred_element_type=jnp.int32).astype(jnp.float32)
    return (rows.T.astype(jnp.float32) @ wide) * row_scale[:, None] * scale


def error_bound(x, codes, scale):
    _, row_scale = quantize(x.T)
    restored = jnp.sum(jnp.abs(codes * scale), axis=0)
    return (jnp.sum(jnp.abs(x), axis=1)[:, None] * scale + row_scale[:, None] * restored) / 2
