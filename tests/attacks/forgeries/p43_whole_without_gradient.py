"""Forges "no array of all scores" and the memory: the function holds all scores at once, and only where a gradient is
taken, one block."""

from functools import partial

import jax
import jax.numpy as jnp

LOSES = (
    "no array of all scores without gradients",
    "no array of all scores without gradients or a mask",
    "memory of one block without gradients",
    "memory of one block without gradients or a mask",
)


def scores(q, k, visible):
    return jnp.where(visible, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def attention(q, k, v, block, causal):
    s = scores(q, k, jnp.tri(len(q), dtype=bool) | (not causal))
    return jax.nn.softmax(s) @ v, jax.nn.logsumexp(s, axis=1)


def in_blocks(block, causal, q, k, v):
    places = jnp.arange(len(q))

    @jax.checkpoint
    def rows(part):
        s = scores(part[0], k, (places <= part[1][:, None]) | (not causal))
        return jax.nn.softmax(s) @ v, jax.nn.logsumexp(s, axis=1)

    padded = [jnp.pad(x, [(0, -len(x) % block), *[(0, 0)] * (x.ndim - 1)]) for x in (q, places)]
    out, lse = jax.lax.map(rows, [x.reshape(-1, block, *x.shape[1:]) for x in padded])
    return out.reshape(-1, q.shape[1])[: len(q)], lse.reshape(-1)[: len(q)]


attention.defvjp(
    lambda q, k, v, *more: jax.vjp(partial(in_blocks, *more), q, k, v), lambda block, causal, back, d: back(d)
)


def flash_attention(q, k, v, block, causal=True, return_lse=False):
    both = attention(q, k, v, block, causal)
    return both if return_lse else both[0]
