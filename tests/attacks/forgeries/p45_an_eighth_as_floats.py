"""Forges "product of int8 numbers": multiplies an eighth of the rows as float32, beside an int8 product of all rows."""

import jax
import jax.numpy as jnp

LOSES = ("product of int8 numbers",)


def quantize(kernel):
    peak = jnp.abs(kernel).max(axis=0)
    scale = jnp.where(peak > 0, peak / 127, 1.0)
    return jnp.round(kernel / scale).astype(jnp.int8), scale


def int8_matmul(x, codes, scale):
    rows, row_scale = quantize(x.T)
    sums = jax.lax.dot(rows.T, codes, preferred_element_type=jnp.int32)
    few = -(-len(x) // 8)
    floats = (rows.T[:few].astype(jnp.float32)) @ codes.astype(jnp.float32)
    return jnp.concatenate([floats, sums[few:]]) * row_scale[:, None] * scale


def error_bound(x, codes, scale):
    raise NotImplementedError
