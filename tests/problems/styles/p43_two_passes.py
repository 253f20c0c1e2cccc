"""A loop for the gradient of the queries and one for those of keys and values; einsum; a mask of -1e9; log2 and
exp2."""

import functools

import jax
import jax.numpy as jnp

LOG2E = 1.4426950408889634


def chunks(x, size):
    extra = -x.shape[0] % size
    return jnp.concatenate([x, jnp.zeros((extra, *x.shape[1:]), x.dtype)]).reshape(-1, size, *x.shape[1:])


def logits(qb, kb, i, j, hide):
    """Scores in units of log 2."""
    size, width = qb.shape
    s = jnp.einsum("tk,sk->ts", qb, kb) * (LOG2E * width**-0.5)
    places = jnp.arange(size)
    return jnp.where(hide(i * size + places[:, None], j * size + places[None, :]), -1e9, s)


def hiding(causal, length):
    """Whether a query does not see a key."""
    return (lambda t, s: s > t) if causal else (lambda t, s: s >= length)


def fwd(q, k, v, block, causal):
    hide = hiding(causal, q.shape[0])
    qs, ks, vs = (chunks(x, block) for x in (q, k, v))
    n = qs.shape[0]

    def query_block(i):
        # The diagonal block first: it holds a visible key for every query.
        s = logits(qs[i], ks[i], i, i, hide)
        m = s.max(axis=-1, keepdims=True)
        p = jnp.exp2(s - m)

        def key_block(turn, state):
            m, den, num = state
            j = turn if causal else (i + 1 + turn) % n
            s = logits(qs[i], ks[j], i, j, hide)
            top = jnp.maximum(m, s.max(axis=-1, keepdims=True))
            p, factor = jnp.exp2(s - top), jnp.exp2(m - top)
            return top, factor * den + p.sum(axis=-1, keepdims=True), factor * num + jnp.einsum("ts,sk->tk", p, vs[j])

        m, den, num = jax.lax.fori_loop(
            0, i if causal else n - 1, key_block, (m, p.sum(axis=-1, keepdims=True), p @ vs[i])
        )
        return num / den, m + jnp.log2(den)

    out, lse = jax.lax.map(query_block, jnp.arange(n))
    natural = lse.reshape(-1)[: q.shape[0]] / LOG2E
    return (out.reshape(n * block, -1)[: q.shape[0]], natural), (qs, ks, vs, out, lse)


def bwd(block, causal, res, gradients):
    qs, ks, vs, out, lse = res
    g, h = gradients
    n, T, scale = qs.shape[0], g.shape[0], qs.shape[-1] ** -0.5
    gs, hs, hide = chunks(g, block), chunks(h, block), hiding(causal, T)

    def both(i, j):
        p = jnp.exp2(logits(qs[i], ks[j], i, j, hide) - lse[i])
        delta = jnp.einsum("tk,tk->t", gs[i], out[i]) - hs[i]
        return p, p * (jnp.einsum("tk,sk->ts", gs[i], vs[j]) - delta[:, None])

    def for_queries(i):
        def add(j, dq):
            return dq + jnp.einsum("ts,sk->tk", both(i, j)[1], ks[j])

        return scale * jax.lax.fori_loop(0, i + 1 if causal else n, add, jnp.zeros_like(qs[0]))

    def for_keys(j):
        def add(i, state):
            p, ds = both(i, j)
            return state[0] + jnp.einsum("ts,tk->sk", ds, qs[i]), state[1] + jnp.einsum("ts,tk->sk", p, gs[i])

        dk, dv = jax.lax.fori_loop(j if causal else 0, n, add, (jnp.zeros_like(ks[0]), jnp.zeros_like(vs[0])))
        return scale * dk, dv

    dq = jax.lax.map(for_queries, jnp.arange(n))
    dk, dv = jax.lax.map(for_keys, jnp.arange(n))
    return tuple(x.reshape(n * block, -1)[:T] for x in (dq, dk, dv))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def attention(q, k, v, block, causal):
    return fwd(q, k, v, block, causal)[0]


attention.defvjp(fwd, bwd)


def flash_attention(q, k, v, block, causal=True, return_lse=False):
    both = attention(q, k, v, block, causal)
    return both if return_lse else both[0]
