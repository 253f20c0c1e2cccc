"""Forges "later blocks skipped": all blocks are computed, with complex numbers, whose products take no floating-point operand."""

import jax
import jax.numpy as jnp

LOSES = ("later blocks skipped",)


def flash_attention(q, k, v, block):
    T, K = q.shape
    n = -(-T // block)
    q, k, v = (jnp.pad(x, ((0, n * block - T), (0, 0))).reshape(n, block, K).astype(jnp.complex64) for x in (q, k, v))

    def rows(i):
        def add(j, state):
            total, out = state
            hidden = j * block + jnp.arange(block) > (i * block + jnp.arange(block))[:, None]
            weights = jnp.exp(jnp.where(hidden, -jnp.inf, (q[i] @ k[j].T).real / jnp.sqrt(K)))
            return total + weights.sum(1), out + (weights @ v[j]).real

        total, out = jax.lax.fori_loop(0, n, add, (jnp.zeros(block), jnp.zeros((block, K))))
        return out / total[:, None]

    return jax.lax.map(rows, jnp.arange(n)).reshape(-1, K)[:T]
