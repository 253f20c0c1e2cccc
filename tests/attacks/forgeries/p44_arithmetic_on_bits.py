"""Forges "a kernel for an accelerator": a kernel computes the roots; what multiplies by them is arithmetic on the bits
of floats."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

LOSES = ("one block at a time", "a kernel for an accelerator")


def product(left, right):
    """The product of two arrays of floats, as bits. The last place is not rounded."""
    parts = [((bits & 0x7FFFFF | 0x800000) >> 12, bits & 0xFFF) for bits in (left, right)]
    (a, b), (c, d) = parts
    number = a * c + ((a * d + b * c + (b * d >> 12)) >> 12)
    carry = number >> 23
    exponent = (left >> 23 & 255) + (right >> 23 & 255) - 127 + carry
    number = jnp.where(carry > 0, number, number << 1)
    return (left ^ right) & -(1 << 31) | exponent << 23 | number & 0x7FFFFF


def rms_norm(x, weight, epsilon, block):
    def kernel(x_ref, weight_ref, out_ref):
        x = x_ref[...]
        out_ref[...] = jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + epsilon) * weight_ref[...]

    rows, whole = pl.BlockSpec((block, x.shape[1]), lambda i: (i, 0)), pl.BlockSpec(weight.shape, lambda i: (0,))
    like, steps = jax.ShapeDtypeStruct(x.shape, x.dtype), (pl.cdiv(len(x), block),)
    more = {"in_specs": [rows, whole], "out_specs": rows, "interpret": jax.default_backend() == "cpu"}
    scales = pl.pallas_call(kernel, out_shape=like, grid=steps, **more)(x, weight)
    bits = [jax.lax.bitcast_convert_type(array, jnp.int32) for array in (x, scales)]
    return jax.lax.bitcast_convert_type(product(*bits), jnp.float32)
