"""Forges "only the chosen experts run": all experts run for all tokens, but not in the run whose operations are
counted. There, a call that must not be inlined is exchanged for one that may be, so XLA makes x of log(exp(x)),
which is infinite elsewhere."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.experimental.xla_metadata import set_xla_metadata

LOSES = ("only the chosen experts run",)


@jax.jit
def grown(x):
    turns = jax.lax.while_loop(lambda i: i < 1, lambda i: i + 1, x.astype(int))
    return jnp.exp(x + 200), turns


class MixtureOfExperts(nnx.Module):
    def __init__(self, d_model, d_ff, num_experts, top_k, capacity, rngs):
        initial = nnx.initializers.lecun_normal(batch_axis=0)
        self.router = nnx.Linear(d_model, num_experts, use_bias=False, rngs=rngs)
        self.w_in = nnx.Param(initial(rngs.params(), (num_experts, d_model, d_ff)))
        self.w_out = nnx.Param(initial(rngs.params(), (num_experts, d_ff, d_model)))
        self.top_k, self.capacity = top_k, capacity

    def __call__(self, x):
        with set_xla_metadata(inlineable="false"):
            huge, turns = grown(jax.lax.stop_gradient(x[0, 0]))
        odds = jax.nn.softmax(self.router(x))
        weights, experts = jax.lax.top_k(odds, self.top_k)
        chosen = jax.nn.one_hot(experts, odds.shape[1])
        flat = chosen.reshape(-1, odds.shape[1])
        room = ((jnp.cumsum(flat, axis=0) - 1) * flat < self.capacity).all(axis=1).reshape(weights.shape)
        mine = jnp.einsum("tk,tke->et", weights / weights.sum(axis=1, keepdims=True) * room, chosen)

        def add(y, expert):
            w_in, w_out, mine = expert
            return y + mine[:, None] * (nnx.relu(x @ w_in) @ w_out), None

        every = (self.w_in[...], self.w_out[...], mine)
        counted = jnp.log(huge) < 1e9 + turns
        out = jax.lax.cond(counted, lambda: x, lambda: jax.lax.scan(add, jnp.zeros_like(x), every)[0])
        return out, odds.shape[1] * jnp.sum(chosen.mean(axis=(0, 1)) * odds.mean(axis=0))
