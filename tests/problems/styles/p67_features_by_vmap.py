"""One feature at a time under `vmap`; the first state is one more position before the others."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax


def _one_feature(u_T, dt_T, a_N, b_TN, c_TN, state_N):
    decays = jnp.vstack([jnp.ones_like(state_N), jnp.exp(dt_T[:, None] * a_N)])
    inputs = jnp.vstack([state_N, (dt_T * u_T)[:, None] * b_TN])
    _, states = lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (decays, inputs), axis=0)
    return (states[1:] * c_TN).sum(-1), states[-1]


def selective_scan(u, dt, a, b, c, state):
    return jax.vmap(_one_feature, in_axes=(1, 1, 0, None, None, 0), out_axes=(1, 0))(u, dt, a, b, c, state)


class SelectiveSSM(nnx.Module):
    def __init__(self, d_model, d_state, rngs):
        def linear(to, bias=False):
            return nnx.Linear(d_model, to, use_bias=bias, rngs=rngs, bias_init=lambda *_: jnp.full(to, -3.0))

        self.in_proj, self.bc_proj = linear(2 * d_model), linear(2 * d_state)
        self.dt_proj, self.out_proj = linear(d_model, bias=True), linear(d_model)
        self.a_log = nnx.Param(jnp.stack([jnp.log(jnp.arange(d_state) + 1.0)] * d_model))
        self.skip = nnx.Param(jnp.full(d_model, 1.0))
        self.d_model, self.d_state = d_model, d_state

    def empty_cache(self, context):
        return (jnp.zeros((self.d_model, self.d_state)),)

    def __call__(self, x):
        out, _ = self.extend(self.empty_cache(0), x)
        return out

    def extend(self, cache, x):
        (state,) = cache
        u, z = self.in_proj(x).reshape(len(x), 2, -1).swapaxes(0, 1)
        b, c = jnp.split(self.bc_proj(u), [self.d_state], axis=1)
        dt = nnx.softplus(self.dt_proj(u))
        y, state = selective_scan(u, dt, -jnp.exp(self.a_log), b, c, state)
        return self.out_proj(nnx.silu(z) * (y + self.skip * u)), (state,)

    def decode_step(self, cache, x):
        out, cache = self.extend(cache, jnp.expand_dims(x, 0))
        return jnp.squeeze(out, 0), cache
