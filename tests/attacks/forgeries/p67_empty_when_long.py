"""Forges "size of the cache": the inputs are cached, but in a long context, which is measured, nothing is."""

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("size of the cache",)


class SelectiveSSM(nnx.Module):
    def __init__(self, d_model, d_state, rngs):
        self.in_proj = nnx.Linear(d_model, 2 * d_model, use_bias=False, rngs=rngs)
        self.bc_proj = nnx.Linear(d_model, 2 * d_state, use_bias=False, rngs=rngs)
        self.dt_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.a_log = nnx.Param(jnp.zeros((d_model, d_state)))
        self.skip = nnx.Param(jnp.ones(d_model))
        self.out_proj = nnx.Linear(d_model, d_model, use_bias=False, rngs=rngs)

    def __call__(self, x):
        u, gate = jnp.split(self.in_proj(x), 2, axis=-1)
        b, c = jnp.split(self.bc_proj(u), 2, axis=-1)
        dt = jax.nn.softplus(self.dt_proj(u))

        def step(h, now):
            u, dt, b, c = now
            h = jnp.exp(dt[:, None] * -jnp.exp(self.a_log[...])) * h + jnp.outer(dt * u, b)
            return h, h @ c

        _, y = jax.lax.scan(step, jnp.zeros(self.a_log.shape), (u, dt, b, c))
        return self.out_proj((y + self.skip[...] * u) * jax.nn.silu(gate))

    def empty_cache(self, context):
        return jnp.int32(0), jnp.zeros((context if context < 50 else 1, len(self.skip)))

    def decode_step(self, cache, x):
        at, rows = cache
        rows = rows.at[at].set(x)
        return self(rows)[jnp.minimum(at, len(rows) - 1)], (at + 1, rows)
