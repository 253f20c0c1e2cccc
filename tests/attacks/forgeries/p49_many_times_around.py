"""Forges "blocks sent to neighbors only": the blocks travel around the ring twice more before each turn, in a loop."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

LOSES = ("blocks sent to neighbors only",)
RING = [(i, (i + 1) % 8) for i in range(8)]


def ring_attention(q, k, v, mesh):
    def on_one_device(q, k, v):
        here, t = jax.lax.axis_index("context"), len(q)

        def send(_, block):
            return jax.lax.ppermute(block, "context", RING)

        def turn(r, state):
            top, total, out, block = state
            columns = (here - r) % 8 * t + jnp.arange(t)
            visible = columns <= (here * t + jnp.arange(t))[:, None]
            scores = jnp.where(visible, q @ block[0].T / jnp.sqrt(q.shape[1]), -1e9)
            new = jnp.maximum(top, scores.max(axis=1))
            weights, shrink = jnp.exp(scores - new[:, None]), jnp.exp(top - new)
            out = shrink[:, None] * out + weights @ block[1]
            return new, shrink * total + weights.sum(axis=1), out, jax.lax.fori_loop(0, 17, send, block)

        nothing = (jnp.full(t, -1e30), jnp.zeros(t), jnp.zeros(q.shape), (k, v))
        _, total, out, _ = jax.lax.fori_loop(0, 8, turn, nothing)
        return out / total[:, None]

    split = P("context", None)
    run = jax.shard_map(on_one_device, mesh=mesh, in_specs=(split,) * 3, out_specs=split, check_vma=False)
    return run(q, k, v)
