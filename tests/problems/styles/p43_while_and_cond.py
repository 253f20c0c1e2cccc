"""A while loop forward; `lax.cond` skips blocks in both passes; the scores are computed with q scaled."""

import jax
import jax.numpy as jnp
from jax import lax


def flash_attention(q, k, v, block, causal=True, return_lse=False):
    T, K = q.shape
    n = (T + block - 1) // block
    rest = n * block - T

    def blocks(x):
        return jnp.pad(x, [(0, rest)] + [(0, 0)] * (x.ndim - 1)).reshape(n, block, *x.shape[1:])

    def scores(qi, kj, i, j):
        rows = i * block + lax.broadcasted_iota(jnp.int32, (block, block), 0)
        columns = j * block + lax.broadcasted_iota(jnp.int32, (block, block), 1)
        return jnp.where((rows < columns) if causal else (columns >= T), -jnp.inf, (qi / jnp.sqrt(K)) @ kj.T)

    @jax.custom_vjp
    def attention(q, k, v):
        return forward(q, k, v)[0]

    def forward(q, k, v):
        qs, ks, vs = map(blocks, (q, k, v))

        def one(_, i):
            def step(state):
                j, m, den, num = state
                s = scores(qs[i], ks[j], i, j)
                m2 = jnp.maximum(m, jnp.max(s, axis=-1))
                e, a = jnp.exp(s - m2[:, None]), jnp.exp(m - m2)
                return j + 1, m2, den * a + e.sum(-1), num * a[:, None] + e @ vs[j]

            start = (jnp.int32(0), jnp.full((block,), -jnp.inf), jnp.zeros((block,)), jnp.zeros((block, K)))
            _, m, den, num = lax.while_loop(lambda state: state[0] <= (i if causal else n - 1), step, start)
            return None, (num / den[:, None], jnp.log(den) + m)

        out, lse = lax.scan(one, None, jnp.arange(n))[1]
        return (out.reshape(n * block, K)[:T], lse.reshape(n * block)[:T]), (qs, ks, vs, out, lse)

    def backward(kept, gradients):
        qs, ks, vs, out, lse = kept
        gs, hs = map(blocks, gradients)

        def row(carry, i):
            def column(state, j):
                def seen(state):
                    dqi, dk, dv = state
                    p = jnp.exp(scores(qs[i], ks[j], i, j) - lse[i][:, None])
                    ds = p * (gs[i] @ vs[j].T + hs[i][:, None] - (gs[i] * out[i]).sum(-1, keepdims=True)) / jnp.sqrt(K)
                    return dqi + ds @ ks[j], dk.at[j].add(ds.T @ qs[i]), dv.at[j].add(p.T @ gs[i])

                return (lax.cond(j <= i, seen, lambda state: state, state) if causal else seen(state)), None

            (dqi, dk, dv), _ = lax.scan(column, (jnp.zeros((block, K)), *carry), jnp.arange(n))
            return (dk, dv), dqi

        (dk, dv), dq = lax.scan(row, (jnp.zeros_like(ks), jnp.zeros_like(vs)), jnp.arange(n))
        return tuple(x.reshape(n * block, K)[:T] for x in (dq, dk, dv))

    attention.defvjp(forward, backward)
    out, lse = attention(q, k, v)
    return (out, lse) if return_lse else out
