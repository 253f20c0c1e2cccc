"""Forges "one block at a time": for a TPU, kernels take all rows at once; for a CPU, a loop of JAX takes one block and
no kernel."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

LOSES = ("a kernel for an accelerator", "backward pass for an accelerator")


def plain(x, weight, epsilon):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + epsilon) * weight


def slopes(x, weight, d_out, epsilon):
    return jax.vjp(partial(plain, epsilon=epsilon), x, weight)[1](d_out)


def whole(function, like, *arrays):
    def kernel(*refs):
        results = function(*(ref[...] for ref in refs[: len(arrays)]))
        for ref, result in zip(refs[len(arrays) :], results, strict=True):
            ref[...] = result

    return pl.pallas_call(kernel, out_shape=like)(*arrays)


def run(function, block, x, weight, *more):
    if jax.sharding.get_abstract_mesh().abstract_device is not None:
        return whole(function, jax.eval_shape(function, x, weight, *more), x, weight, *more)
    rows = [jnp.pad(a, ((0, -len(x) % block), (0, 0))).reshape(-1, block, x.shape[1]) for a in (x, *more)]
    first, *sums = jax.lax.map(lambda r: function(r[0], weight, *r[1:]), rows)
    return first.reshape(-1, x.shape[1])[: len(x)], *(
        jax.lax.scan(lambda s, r: (s + r, None), 0 * weight, s)[0] for s in sums
    )


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def rms_norm(x, weight, epsilon, block):
    return run(lambda x, w: (plain(x, w, epsilon),), block, x, weight)[0]


def backward(epsilon, block, kept, d_out):
    return run(partial(slopes, epsilon=epsilon), block, *kept, d_out)


rms_norm.defvjp(lambda x, weight, epsilon, block: (rms_norm(x, weight, epsilon, block), (x, weight)), backward)
