"""Chunks of 256 positions, one after another in a loop; the last one is padded. A step is a text of one position."""

import jax
import jax.numpy as jnp
from flax import nnx

CHUNK = 256


def join(earlier, later):
    return later[0] * earlier[0], later[0] * earlier[1] + later[1]


def selective_scan(u, dt, a, b, c, state):
    T, D = u.shape
    chunks = -(-T // CHUNK)

    def cut(x):
        return jnp.pad(x, ((0, chunks * CHUNK - T), (0, 0))).reshape(chunks, CHUNK, x.shape[1])

    def chunk(state, rows):
        u, dt, b, c = rows  # behind the last position dt is 0, which leaves the state as it is
        decay = jnp.exp(jnp.einsum("td,dn->tdn", dt, a))
        decays, h = jax.lax.associative_scan(join, (decay, jnp.einsum("td,td,tn->tdn", dt, u, b)))
        h = h + decays * state
        return h[-1], jnp.einsum("tdn,tn->td", h, c)

    state, y = jax.lax.scan(chunk, state, tuple(map(cut, (u, dt, b, c))))
    return y.reshape(-1, D)[:T], state


class SelectiveSSM(nnx.Module):
    def __init__(self, d_model, d_state, rngs):
        self.N = d_state
        self.a_log = nnx.Param(jnp.broadcast_to(jnp.log(1.0 + jnp.arange(d_state)), (d_model, d_state)))
        self.skip = nnx.Param(jnp.ones((d_model,)))
        self.in_proj = nnx.Linear(d_model, 2 * d_model, use_bias=False, rngs=rngs)
        self.bc_proj = nnx.Linear(d_model, 2 * d_state, use_bias=False, rngs=rngs)
        self.dt_proj = nnx.Linear(d_model, d_model, bias_init=nnx.initializers.constant(-3.0), rngs=rngs)
        self.out_proj = nnx.Linear(d_model, d_model, use_bias=False, rngs=rngs)

    def empty_cache(self, context):
        return {"state": jnp.zeros_like(self.a_log[...])}

    def extend(self, cache, x):
        D = x.shape[1]
        both = self.in_proj(x)
        u, gate = both[:, :D], both[:, D:]
        bc = self.bc_proj(u)
        dt = jax.nn.softplus(self.dt_proj(u))
        y, state = selective_scan(u, dt, -jnp.exp(self.a_log[...]), bc[:, : self.N], bc[:, self.N :], cache["state"])
        return self.out_proj((y + u * self.skip[...]) * jax.nn.silu(gate)), {"state": state}

    def __call__(self, x):
        return self.extend(self.empty_cache(0), x)[0]

    def decode_step(self, cache, x):
        out, cache = self.extend(cache, x[None])
        return out.squeeze(0), cache
