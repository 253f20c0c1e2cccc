"""Forges "gradients sent to neighbors only": where the forward pass is measured, the ring is a loop of unknown length,
which JAX cannot differentiate; a short context gathers everything by sends to neighbors."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

LOSES = ("gradients sent to neighbors only",)

RING = [(i, (i + 1) % 8) for i in range(8)]


def ring_attention(q, k, v, mesh):
    def send(block):
        return jax.lax.ppermute(block, "context", RING)

    def short(q, k, v):
        here, t = jax.lax.axis_index("context"), len(q)
        _, (k, v) = jax.lax.scan(lambda block, _: (send(block), block), (k, v), length=8)
        columns = (((here - jnp.arange(8)) % 8 * t)[:, None] + jnp.arange(t)).reshape(-1)
        scores = q @ k.reshape(-1, q.shape[1]).T / jnp.sqrt(q.shape[1])
        visible = columns <= here * t + jnp.arange(t)[:, None]
        return jax.nn.softmax(jnp.where(visible, scores, -1e9), axis=-1) @ v.reshape(-1, q.shape[1])

    def long(q, k, v):
        here, t = jax.lax.axis_index("context"), len(q)

        def turn(state):
            r, total, out, k, v = state
            visible = (here - r) % 8 * t + jnp.arange(t) <= here * t + jnp.arange(t)[:, None]
            w = jnp.where(visible, jnp.exp(q @ k.T / jnp.sqrt(q.shape[1])), 0)
            return r + 1, total + w.sum(axis=1), out + w @ v, send(k), send(v)

        state = jax.lax.while_loop(lambda s: s[0] < 8, turn, (0, jnp.zeros(t), jnp.zeros(q.shape), k, v))
        return state[2] / state[1][:, None]

    split = P("context", None)
    body = long if len(q) > 100 else short
    return jax.shard_map(body, mesh=mesh, in_specs=(split,) * 3, out_specs=split, check_vma=False)(q, k, v)
