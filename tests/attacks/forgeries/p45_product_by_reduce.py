"""Forges "product of int8 numbers": multiplies dequantized numbers by a reduction of pairs, beside an int8 product times 0."""

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
    a, b = rows.T * row_scale[:, None], codes * scale
    pairs = jnp.stack(jnp.broadcast_arrays(a[:, :, None], b[None]))
    return jnp.prod(pairs, axis=0).sum(axis=1) + 0 * sums


def error_bound(x, codes, scale):
    raise NotImplementedError
