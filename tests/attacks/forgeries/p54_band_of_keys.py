"""Forges "blocks without a common segment skipped": no segment decides what is computed. In a long row, queries see the
209 keys before them, because no segment of the measured row has more than 210 tokens."""

import jax.numpy as jnp

LOSES = ("blocks without a common segment skipped",)


def segment_attention(q, k, v, segment_ids, block):
    T, q = len(q), q / jnp.sqrt(q.shape[1])
    back, size = (209, 8) if T > 100 else (T, block)

    def rows(start):
        first, last = max(0, start - back), min(start + size, T)
        t, s = jnp.arange(start, last)[:, None], jnp.arange(first, last)
        sees = (segment_ids[start:last, None] == segment_ids[first:last]) & (s <= t)
        weights = jnp.where(sees, jnp.exp(q[start:last] @ k[first:last].T), 0)
        return weights @ v[first:last] / weights.sum(axis=1, keepdims=True)

    return jnp.concatenate([rows(start) for start in range(0, T, size)])
