"""Forges "backward pass for an accelerator": a loop of JAX over blocks, beside a right forward pass."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

LOSES = ("backward pass for an accelerator",)


def plain(x, weight, epsilon):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + epsilon) * weight


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def rms_norm(x, weight, epsilon, block):
    def kernel(x_ref, weight_ref, out_ref):
        out_ref[...] = plain(x_ref[...], weight_ref[...], epsilon)

    rows, whole = pl.BlockSpec((block, x.shape[1]), lambda i: (i, 0)), pl.BlockSpec(weight.shape, lambda i: (0,))
    like, steps = jax.ShapeDtypeStruct(x.shape, x.dtype), (pl.cdiv(len(x), block),)
    more = {"in_specs": [rows, whole], "out_specs": rows, "interpret": jax.default_backend() == "cpu"}
    return pl.pallas_call(kernel, out_shape=like, grid=steps, **more)(x, weight)


def backward(epsilon, block, kept, d_out):
    x, weight = kept

    def of_block(total, both):
        dx, d_weight = jax.vjp(partial(plain, epsilon=epsilon), both[0], weight)[1](both[1])
        return total + d_weight, dx

    pad = ((0, -len(x) % block), (0, 0))
    blocks = [jnp.pad(array, pad).reshape(-1, block, x.shape[1]) for array in (x, d_out)]
    d_weight, dx = jax.lax.scan(of_block, jnp.zeros_like(weight), tuple(blocks))
    return dx.reshape(-1, x.shape[1])[: len(x)], d_weight


rms_norm.defvjp(lambda x, weight, epsilon, block: (rms_norm(x, weight, epsilon, block), (x, weight)), backward)
