"""Forges the blocks that are sent: they travel around the ring five times, as complex numbers."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

LOSES = ("blocks sent to neighbors only",)


def ring_attention(q, k, v, mesh):
    ring = [(i, (i + 1) % 8) for i in range(8)]

    @jax.custom_jvp
    def send(kv):
        with jax.enable_x64(True):
            parts = [jax.lax.bitcast_convert_type(x.reshape(-1), jnp.float32) for x in kv]
            flat = jnp.concatenate(parts)
            flat = jnp.pad(flat, (0, -len(flat) % 4))
            pairs = jax.lax.bitcast_convert_type(flat.reshape(-1, 2), jnp.float64).reshape(-1, 2)
            c = jax.lax.ppermute(jax.lax.complex(pairs[:, 0], pairs[:, 1]), "context", ring)
            flat = jax.lax.bitcast_convert_type(jnp.stack([c.real, c.imag], -1), jnp.float32).reshape(-1)
            n = kv[0].size
            return flat[:n].reshape(kv[0].shape), flat[n : 2 * n].reshape(kv[0].shape)

    send.defjvp(lambda kv, d: (send(*kv), jax.lax.ppermute(d[0], "context", ring)))

    def body(q, k, v):
        here, t = jax.lax.axis_index("context"), q.shape[0]
        rows = here * t + jnp.arange(t)

        def turn(state, step):
            (top, total, out), kv = state
            columns = (here - step) % 8 * t + jnp.arange(t)
            s = jnp.where(columns <= rows[:, None], q @ kv[0].T / jnp.sqrt(q.shape[1]), -1e9)
            new = jnp.maximum(top, s.max(1))
            w, shrink = jnp.exp(s - new[:, None]), jnp.exp(top - new)
            w = jnp.where(step < 8, w, 0 * w)
            shrink = jnp.where(step < 8, shrink, 1.0)
            new = jnp.where(step < 8, new, top)
            return ((new, total * shrink + w.sum(1), out * shrink[:, None] + w @ kv[1]), send(kv)), None

        own = jnp.full(t, -1e30), jnp.zeros(t), jnp.zeros(q.shape)
        ((_, total, out), _), _ = jax.lax.scan(turn, (own, (k, v)), jnp.arange(40))
        return out / total[:, None]

    split = P("context", None)
    return jax.shard_map(body, mesh=mesh, in_specs=(split,) * 3, out_specs=split, check_vma=False)(q, k, v)
