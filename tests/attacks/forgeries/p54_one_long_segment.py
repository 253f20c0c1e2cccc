"""Forges "blocks without a common segment skipped": in a long row, queries see the 32 keys before them, and the one
segment that is longer is computed apart, whole, wherever it stands. A row with two of them gets wrong numbers."""

import jax
import jax.numpy as jnp

LOSES = ("blocks without a common segment skipped",)


def plain(q, k, v, q_ids, k_ids, first):
    t, s = first + jnp.arange(len(q))[:, None], jnp.arange(len(k))
    weights = jnp.where((q_ids[:, None] == k_ids) & (s <= t), jnp.exp(q @ k.T), 0)
    return weights @ v / weights.sum(axis=1, keepdims=True)


def segment_attention(q, k, v, segment_ids, block):
    T, q, size = len(q), q / jnp.sqrt(q.shape[1]), 16
    if T < 100:
        return plain(q, k, v, segment_ids, segment_ids, 0)
    out = []
    for start in range(0, T, size):
        first, last = min(438, max(0, start - 32)), start + size
        seen = k[first:last], v[first:last], segment_ids[start:last], segment_ids[first:last]
        out.append(plain(q[start:last], *seen, start - first))
    # The longest one: between the last token of the segment before it, and 210 tokens later
    far = jnp.append(segment_ids[64:] == segment_ids[:-64], jnp.zeros(64, bool)) & (segment_ids > 0)
    start = jnp.minimum(jnp.argmax(far), T - 210)
    q, k, v, ids = (jax.lax.dynamic_slice_in_dim(x, start, 210) for x in (q, k, v, segment_ids))
    ends = [(i, i + 30) for i in range(0, 210, 30)]
    rows = [plain(q[i:end], k[:end], v[:end], ids[i:end], ids[:end], i) for i, end in ends]
    whole, longest = jnp.concatenate(out), ids == segment_ids[jnp.argmax(far)]
    old = jax.lax.dynamic_slice_in_dim(whole, start, 210)
    new = jnp.where(longest[:, None], jnp.concatenate(rows), old)
    return jax.lax.dynamic_update_slice_in_dim(whole, new, start, 0)
