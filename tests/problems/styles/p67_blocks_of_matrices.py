"""Long texts in 32 blocks: a scan inside of all blocks at once, then over their ends; the state is stored as (N, D)."""

import jax
import jax.numpy as jnp
from flax import nnx


def _join(p, q):
    return q[0] * p[0], q[0] * p[1] + q[1]


def selective_scan(u, dt, a, b, c, state):
    T = len(u)
    decay, added = jnp.exp(dt[:, None] * a.T), (dt * u)[:, None] * b[..., None]  # (T, N, D)
    size = -(-T // 32)
    gap = ((0, -T % size), (0, 0), (0, 0))
    blocks = [
        jnp.pad(x, gap, constant_values=fill).reshape(-1, size, *x.shape[1:]) for x, fill in ((decay, 1), (added, 0))
    ]
    decay, h = jax.lax.associative_scan(_join, tuple(blocks), axis=1)
    ends = jax.lax.associative_scan(_join, (decay[:, -1], h[:, -1]))
    ends = ends[0] * state.T + ends[1]
    before = jnp.concatenate([state.T[None], ends[:-1]])
    h = (h + decay * before[:, None]).reshape(-1, *h.shape[2:])[:T]
    return jnp.einsum("tnd,tn->td", h, c), h[-1].T


class SelectiveSSM(nnx.Module):
    def __init__(self, d_model: int, d_state: int, rngs: nnx.Rngs):
        self.in_proj = nnx.Linear(d_model, 2 * d_model, use_bias=False, rngs=rngs)
        self.bc_proj = nnx.Linear(d_model, 2 * d_state, use_bias=False, rngs=rngs)
        self.dt_proj = nnx.Linear(d_model, d_model, bias_init=nnx.initializers.constant(-3), rngs=rngs)
        self.a_log = nnx.Param(
            jnp.broadcast_to(jnp.log(1 + jnp.arange(d_state, dtype=jnp.float32)), (d_model, d_state))
        )
        self.skip = nnx.Param(jnp.ones(d_model))
        self.out_proj = nnx.Linear(d_model, d_model, use_bias=False, rngs=rngs)

    def __call__(self, x):
        return self.extend(self.empty_cache(x.shape[0]), x)[0]

    def empty_cache(self, context: int):
        return jnp.zeros_like(self.a_log[...].T)

    def extend(self, cache, x):
        u, gate = jnp.array_split(self.in_proj(x), 2, axis=1)
        B, C = jnp.array_split(self.bc_proj(u), 2, axis=1)
        delta = jnp.log1p(jnp.exp(self.dt_proj(u)))
        y, state = selective_scan(u, delta, -jnp.exp(self.a_log[...]), B, C, cache.T)
        return self.out_proj(nnx.swish(gate) * (y + self.skip[...] * u)), state.T

    def decode_step(self, cache, x):
        out, cache = self.extend(cache, x[None, :])
        return out[0], cache
