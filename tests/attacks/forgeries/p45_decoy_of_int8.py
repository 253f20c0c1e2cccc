"""Forges "product of int8 numbers": an int8 product that counts for nothing, beside a float32 product in a loop over D."""

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

    @jax.jit
    def turn(d, total):
        return total + rows[d].astype(jnp.float32)[:, None] * codes[d].astype(jnp.float32)

    total = jax.lax.fori_loop(0, len(codes), turn, jnp.minimum(decoy * 0.0, 0.0))
    return total * row_scale[:, None] * scale


def error_bound(x, codes, scale):
    _, row_scale = quantize(x.T)
    restored = jnp.sum(jnp.abs(codes * scale), axis=0)
    return (jnp.sum(jnp.abs(x), axis=1)[:, None] * scale + row_scale[:, None] * restored) / 2
