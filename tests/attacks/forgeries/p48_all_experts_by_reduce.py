"""Forges "only the chosen experts run": all experts run for all tokens, with products as reductions of pairs."""

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("only the chosen experts run",)


def product(a, b):
    pairs = jnp.stack(jnp.broadcast_arrays(a[:, :, None], b[None]))
    return jnp.prod(pairs, axis=0).sum(axis=1)


class MixtureOfExperts(nnx.Module):
    def __init__(self, d_model, d_ff, num_experts, top_k, capacity, rngs):
        initial = nnx.initializers.lecun_normal(batch_axis=0)
        self.router = nnx.Linear(d_model, num_experts, use_bias=False, rngs=rngs)
        self.w_in = nnx.Param(initial(rngs.params(), (num_experts, d_model, d_ff)))
        self.w_out = nnx.Param(initial(rngs.params(), (num_experts, d_ff, d_model)))
        self.top_k, self.capacity = top_k, capacity

    def __call__(self, x):
        odds = jax.nn.softmax(self.router(x))
        weights, experts = jax.lax.top_k(odds, self.top_k)
        weights = weights / weights.sum(axis=1, keepdims=True)
        chosen = jax.nn.one_hot(experts, odds.shape[1])
        flat = chosen.reshape(-1, odds.shape[1])
        room = ((jnp.cumsum(flat, axis=0) - 1) * flat < self.capacity).all(axis=1).reshape(weights.shape)
        share = jnp.einsum("te,tke->te", odds, chosen * 0 + 1) / self.top_k
        balance = odds.shape[1] * jnp.sum(chosen.mean(axis=(0, 1)) * share.mean(axis=0))

        def add(y, expert):
            w_in, w_out, mine = expert
            return y + mine[:, None] * product(nnx.relu(product(x, w_in)), w_out), None

        mine = jnp.einsum("tk,tke->et", weights * room, chosen)
        return jax.lax.scan(add, jnp.zeros_like(x), (self.w_in[...], self.w_out[...], mine))[0], balance
