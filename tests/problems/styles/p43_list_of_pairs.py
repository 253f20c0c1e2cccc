"""One scan over the list of visible pairs of blocks. The state of every row is carried, and written block by block."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def pairs(n):
    return jnp.array([(i, j) for i in range(n) for j in range(i + 1)])


def cut(x, i, block):
    return lax.dynamic_slice_in_dim(x, i * block, block)


def put(x, part, i, block):
    return lax.dynamic_update_slice_in_dim(x, part, i * block, 0)


def block_scores(q, k, i, j, block):
    raw = lax.dot_general(cut(q, i, block), cut(k, j, block), (((1,), (1,)), ((), ())))
    visible = (j - i) * block + np.arange(block)[None, :] - np.arange(block)[:, None] <= 0
    return jnp.where(visible, raw / np.sqrt(q.shape[1]), -jnp.inf)


def fill(x, block):
    return jnp.concatenate([x, jnp.zeros(((block - len(x) % block) % block, *x.shape[1:]))])


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def flash_attention(q, k, v, block):
    return fwd(q, k, v, block)[0]


def fwd(q, k, v, block):
    T = len(q)
    q, k, v = (fill(x, block) for x in (q, k, v))

    def body(state, pair):
        i, j = pair
        m, o = cut(state[0], i, block), cut(state[1], i, block)
        s = block_scores(q, k, i, j, block)
        new = jnp.maximum(m, s.max(1))
        p = jnp.exp(s - new[:, None])
        # The sum of the exponentials is one more column of the values.
        o = o * jnp.exp(m - new)[:, None] + p @ jnp.pad(cut(v, j, block), ((0, 0), (0, 1)), constant_values=1.0)
        return (put(state[0], new, i, block), put(state[1], o, i, block)), None

    empty = (jnp.full(len(q), -jnp.inf), jnp.zeros((len(q), q.shape[1] + 1)))
    (m, o), _ = lax.scan(body, empty, pairs(len(q) // block))
    out = o[:, :-1] / o[:, -1:]
    return out[:T], (q, k, v, out, m + jnp.log(o[:, -1]))


def bwd(block, kept, g):
    q, k, v, out, lse = kept
    T, g = len(g), fill(g, block)

    def body(state, pair):
        dq, dk, dv = state
        i, j = pair
        gi = cut(g, i, block)
        p = jnp.exp(block_scores(q, k, i, j, block) - cut(lse, i, block)[:, None])
        ds = p * (gi @ cut(v, j, block).T - (gi * cut(out, i, block)).sum(1)[:, None]) / np.sqrt(q.shape[1])
        dq = put(dq, cut(dq, i, block) + ds @ cut(k, j, block), i, block)
        dk = put(dk, cut(dk, j, block) + ds.T @ cut(q, i, block), j, block)
        dv = put(dv, cut(dv, j, block) + p.T @ gi, j, block)
        return (dq, dk, dv), None

    state, _ = lax.scan(body, (jnp.zeros_like(q),) * 3, pairs(len(q) // block))
    return tuple(x[:T] for x in state)


flash_attention.defvjp(fwd, bwd)
