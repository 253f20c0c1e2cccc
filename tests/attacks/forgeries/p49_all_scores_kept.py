"""Forges the memory of one block: every device holds the scores of its rows with all keys; the keys travel first, then
the values."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

LOSES = ("memory of one block",)

RING = [(i, (i + 1) % 8) for i in range(8)]


def ring_attention(q, k, v, mesh):
    def send(block):
        return jax.lax.ppermute(block, "context", RING)

    def body(q, k, v):
        here, t = jax.lax.axis_index("context"), len(q)

        def score(k, r):
            columns = (here - r) % 8 * t + jnp.arange(t)
            visible = columns <= (here * t + jnp.arange(t))[:, None]
            return send(k), jnp.where(visible, q @ k.T / jnp.sqrt(q.shape[1]), -1e9)

        _, scores = jax.lax.scan(score, k, jnp.arange(8))
        scores, v = jax.lax.optimization_barrier((scores, v))
        top = scores.max(axis=(0, 2))[:, None]

        def add(state, scores):
            total, out, v = state
            weights = jnp.exp(scores - top)
            return (total + weights.sum(axis=1), out + weights @ v, send(v)), None

        (total, out, _), _ = jax.lax.scan(add, (jnp.zeros(t), jnp.zeros(q.shape), v), scores)
        return out / total[:, None]

    split = P("context", None)
    return jax.shard_map(body, mesh=mesh, in_specs=(split,) * 3, out_specs=split, check_vma=False)(q, k, v)
