"""Forges "product of int8 numbers": writes the codes into buckets by the digits of x, and an int8 product with ones
adds them."""

import jax
import jax.numpy as jnp

LOSES = ("product of int8 numbers",)
DIGITS = jnp.arange(16)


def quantize(kernel):
    peak = jnp.abs(kernel).max(axis=0)
    scale = jnp.where(peak > 0, peak / 127, 1.0)
    return jnp.round(kernel / scale).astype(jnp.int8), scale


def sums(digits, codes):
    """For each row of digits and each digit, the sum of the rows of the codes whose digit it is."""
    places = jnp.arange(len(codes))
    empty = jnp.zeros((16, *codes.shape), jnp.int8)
    buckets = jax.vmap(lambda row: empty.at[row, places].set(codes, mode="promise_in_bounds"))(digits)
    ones = jnp.ones(len(codes), jnp.int8)
    return jax.lax.dot_general(ones, buckets, (((0,), (2,)), ((), ())), preferred_element_type=jnp.int32)


def int8_matmul(x, codes, scale):
    rows, row_scale = quantize(x.T)
    shifted = rows.T.astype(jnp.int32) + 128
    high, low = sums(shifted >> 4, codes), sums(shifted & 15, codes)
    products = jnp.einsum("h,thf->tf", DIGITS, 16 * high + low) - 128 * high.sum(1)
    return products * row_scale[:, None] * scale


def error_bound(x, codes, scale):
    raise NotImplementedError
