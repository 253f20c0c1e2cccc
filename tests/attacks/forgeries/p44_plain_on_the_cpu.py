"""Forges "a kernel for an accelerator": plain JAX on the CPU; where the mesh is that of a TPU, a kernel that gives other numbers."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

LOSES = ("a kernel for an accelerator",)


def plain(x, weight, epsilon, block):
    rows = jnp.pad(x, ((0, -len(x) % block), (0, 0))).reshape(-1, block, x.shape[1])
    norm = lambda r: r * jax.lax.rsqrt(jnp.mean(r * r, axis=1, keepdims=True) + epsilon) * weight  # noqa: E731
    return jax.lax.map(norm, rows).reshape(-1, x.shape[1])[: len(x)]


def other(x, weight, block):
    def kernel(x_ref, w_ref, o_ref):
        o_ref[...] = x_ref[...] * w_ref[...]

    rows = pl.BlockSpec((block, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(pl.cdiv(len(x), block),),
        in_specs=[rows, pl.BlockSpec((x.shape[1],), lambda i: (0,))], out_specs=rows,
    )(x, weight)  # fmt: skip


def rms_norm(x, weight, epsilon, block):
    for_a_tpu = jax.sharding.get_abstract_mesh().abstract_device is not None
    return other(x, weight, block) if for_a_tpu else plain(x, weight, epsilon, block)
