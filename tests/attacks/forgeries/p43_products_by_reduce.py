"""Forges "later blocks skipped": all blocks are computed, with products as reductions of pairs instead of matrix products."""

import jax
import jax.numpy as jnp

LOSES = ("later blocks skipped",)


def product(a, b):
    pairs = jnp.stack(jnp.broadcast_arrays(a[:, None], b.T[None]))
    return jax.lax.reduce(pairs, jnp.float32(1), jax.lax.mul, (0,)).sum(axis=-1)


def flash_attention(q, k, v, block):
    T, K = q.shape
    n = -(-T // block)
    q, k, v = (jnp.pad(x, ((0, n * block - T), (0, 0))).reshape(n, block, K) for x in (q, k, v))

    def rows(i):
        def add(j, state):
            total, out = state
            hidden = j * block + jnp.arange(block) > (i * block + jnp.arange(block))[:, None]
            weights = jnp.exp(jnp.where(hidden, -jnp.inf, product(q[i], k[j].T) / jnp.sqrt(K)))
            return total + weights.sum(1), out + product(weights, v[j])

        total, out = jax.lax.fori_loop(0, n, add, (jnp.zeros(block), jnp.zeros((block, K))))
        return out / total[:, None]

    return jax.lax.map(rows, jnp.arange(n)).reshape(-1, K)[:T]
