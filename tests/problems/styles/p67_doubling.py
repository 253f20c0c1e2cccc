"""Doubles the distance in each pass, with a cache in a dictionary; `decode_step` is the recurrence itself."""

import jax.numpy as jnp
from flax import nnx


def selective_scan(u, dt, a, b, c, state):
    T = u.shape[0]
    decay = jnp.exp(jnp.einsum("td,dn->tdn", dt, a))
    h = jnp.einsum("td,td,tn->tdn", dt, u, b)
    distance = 1
    while distance < T:
        pad = ((distance, 0), (0, 0), (0, 0))
        h = h + decay * jnp.pad(h[:-distance], pad)
        decay = decay * jnp.pad(decay[:-distance], pad, constant_values=1.0)
        distance *= 2
    h = h + decay * state  # by now, the product of all decays so far
    return jnp.sum(h * c[:, None], axis=-1), h[-1]


class SelectiveSSM(nnx.Module):
    def __init__(self, d_model, d_state, rngs):
        self.sizes = d_model, d_state
        self.out_proj = nnx.Linear(d_model, d_model, use_bias=False, rngs=rngs)
        self.dt_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.dt_proj.bias[...] = jnp.full(d_model, -3.0)
        self.bc_proj = nnx.Linear(d_model, 2 * d_state, use_bias=False, rngs=rngs)
        self.in_proj = nnx.Linear(d_model, 2 * d_model, use_bias=False, rngs=rngs)
        self.a_log = nnx.Param(jnp.log(jnp.ones((d_model, 1)) * jnp.arange(1, d_state + 1)))
        self.skip = nnx.Param(jnp.ones((d_model,)))

    def _projected(self, x):
        D, N = self.sizes
        both = self.in_proj(x)
        u, z = both[..., :D], both[..., D:]
        bc = self.bc_proj(u)
        return u, z, jnp.logaddexp(self.dt_proj(u), 0.0), bc[..., :N], bc[..., N:]

    def _out(self, y, u, z):
        return self.out_proj((y + u * self.skip) * z * nnx.sigmoid(z))

    def __call__(self, x):
        return self.extend({"h": jnp.zeros(self.sizes)}, x)[0]

    def empty_cache(self, context):
        return {"h": jnp.zeros(self.sizes)}

    def extend(self, cache, x):
        u, z, dt, b, c = self._projected(x)
        y, h = selective_scan(u, dt, -jnp.exp(self.a_log[...]), b, c, cache["h"])
        return self._out(y, u, z), {"h": h}

    def decode_step(self, cache, x):
        u, z, dt, b, c = self._projected(x)
        h = jnp.exp(dt[:, None] * -jnp.exp(self.a_log[...])) * cache["h"] + jnp.outer(dt * u, b)
        return self._out(h @ c, u, z), {"h": h}
