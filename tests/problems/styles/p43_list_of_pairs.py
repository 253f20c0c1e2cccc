"""One scan over the list of pairs of blocks that are needed. The state of every row is carried, and written block by
block."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def pairs(n, causal):
    return jnp.array([(i, j) for i in range(n) for j in range(i + 1 if causal else n)])


def cut(x, i, block):
    return lax.dynamic_slice_in_dim(x, i * block, block)


def put(x, part, i, block):
    return lax.dynamic_update_slice_in_dim(x, part, i * block, 0)


def block_scores(q, k, i, j, block, keys):
    """`keys` is the number of keys if there is no causal mask, otherwise None."""
    raw = lax.dot_general(cut(q, i, block), cut(k, j, block), (((1,), (1,)), ((), ())))
    places = np.arange(block)
    if keys is None:
        visible = (j - i) * block + places[None, :] - places[:, None] <= 0
    else:
        visible = jnp.tile(j * block + places < keys, (block, 1))
    return jnp.where(visible, raw / np.sqrt(q.shape[1]), -jnp.inf)


def fill(x, block):
    return jnp.concatenate([x, jnp.zeros(((block - len(x) % block) % block, *x.shape[1:]))])


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def attention(q, k, v, block, causal):
    return fwd(q, k, v, block, causal)[0]


def fwd(q, k, v, block, causal):
    T = len(q)
    keys = None if causal else T
    q, k, v = (fill(x, block) for x in (q, k, v))

    def body(state, pair):
        i, j = pair
        m, o = cut(state[0], i, block), cut(state[1], i, block)
        s = block_scores(q, k, i, j, block, keys)
        new = jnp.maximum(m, s.max(1))
        p = jnp.exp(s - new[:, None])
        # The sum of the exponentials is one more column of the values.
        o = o * jnp.exp(m - new)[:, None] + p @ jnp.pad(cut(v, j, block), ((0, 0), (0, 1)), constant_values=1.0)
        return (put(state[0], new, i, block), put(state[1], o, i, block)), None

    empty = (jnp.full(len(q), -jnp.inf), jnp.zeros((len(q), q.shape[1] + 1)))
    (m, o), _ = lax.scan(body, empty, pairs(len(q) // block, causal))
    out = o[:, :-1] / o[:, -1:]
    lse = m + jnp.log(o[:, -1])
    return (out[:T], lse[:T]), (q, k, v, out, lse)


def bwd(block, causal, kept, gradients):
    q, k, v, out, lse = kept
    T = len(gradients[0])
    keys = None if causal else T
    g, g_lse = (fill(x, block) for x in gradients)

    def body(state, pair):
        dq, dk, dv = state
        i, j = pair
        gi = cut(g, i, block)
        p = jnp.exp(block_scores(q, k, i, j, block, keys) - cut(lse, i, block)[:, None])
        delta = (gi * cut(out, i, block)).sum(1) - cut(g_lse, i, block)
        ds = p * (gi @ cut(v, j, block).T - delta[:, None]) / np.sqrt(q.shape[1])
        dq = put(dq, cut(dq, i, block) + ds @ cut(k, j, block), i, block)
        dk = put(dk, cut(dk, j, block) + ds.T @ cut(q, i, block), j, block)
        dv = put(dv, cut(dv, j, block) + p.T @ gi, j, block)
        return (dq, dk, dv), None

    state, _ = lax.scan(body, (jnp.zeros_like(q),) * 3, pairs(len(q) // block, causal))
    return tuple(x[:T] for x in state)


attention.defvjp(fwd, bwd)


def flash_attention(q, k, v, block, causal=True, return_lse=False):
    both = attention(q, k, v, block, causal)
    return both if return_lse else both[0]
