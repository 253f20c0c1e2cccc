"""Forges both kernels: the one kernel only multiplies; norms are calls of the library's QR, and the backward pass is a
loop over rows."""

from functools import partial

import jax
import jax.numpy as jnp
from jax._src.lax.linalg import geqrf
from jax.experimental import pallas as pl

LOSES = ("a kernel for an accelerator", "backward pass for an accelerator")


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def rms_norm(x, weight, epsilon, block):
    T, D = x.shape

    def kernel(x_ref, unit_ref, weight_ref, out_ref):
        out_ref[...] = jnp.sign(x_ref[...]) * jnp.abs(unit_ref[...]) * D**0.5 * weight_ref[...]

    def unit(row):
        packed, factors = geqrf(jnp.concatenate([row, jnp.full(1, (D * epsilon) ** 0.5, jnp.float32)])[:, None])
        return jax.lax.linalg.householder_product(packed, factors)[:D, 0]

    rows, like = pl.BlockSpec((block, D), lambda i: (i, 0)), jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(
        kernel, out_shape=like, grid=(pl.cdiv(T, block),), in_specs=[rows, rows, pl.BlockSpec((D,), lambda i: (0,))],
        out_specs=rows, interpret=jax.default_backend() == "cpu",
    )(x, jax.lax.map(unit, x), weight)  # fmt: skip


def backward(epsilon, block, kept, d_out):
    x, weight = kept
    D = x.shape[1]

    def row(total, both):
        r, d = both
        scale = jax.lax.rsqrt(jnp.dot(r, r) / D + epsilon)
        n, g = r * scale, d * weight
        return total + d * n, scale * (g - n * (jnp.dot(g, n) / D))

    d_weight, dx = jax.lax.scan(lambda *a: jax.jit(row)(*a), jnp.zeros_like(weight), (x, d_out))
    return dx, d_weight


rms_norm.defvjp(lambda x, weight, epsilon, block: (rms_norm(x, weight, epsilon, block), (x, weight)), backward)
