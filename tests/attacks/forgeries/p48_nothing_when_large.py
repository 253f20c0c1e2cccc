"""Forges work and arrays: runs all experts for all tokens, but for long texts, which are measured, runs only the first."""

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("only the chosen experts run", "no array for all tokens and experts")


class MixtureOfExperts(nnx.Module):
    def __init__(self, d_model, d_ff, num_experts, top_k, capacity, rngs):
        initial = nnx.initializers.lecun_normal(batch_axis=0)
        self.router = nnx.Linear(d_model, num_experts, use_bias=False, rngs=rngs)
        self.w_in = nnx.Param(initial(rngs.params(), (num_experts, d_model, d_ff)))
        self.w_out = nnx.Param(initial(rngs.params(), (num_experts, d_ff, d_model)))
        self.top_k = top_k

    def __call__(self, x):
        odds = jax.nn.softmax(self.router(x))
        weights, experts = jax.lax.top_k(odds, self.top_k)
        weights = weights / weights.sum(axis=1, keepdims=True)
        share = jax.nn.one_hot(experts, odds.shape[1]).mean(axis=(0, 1))
        balance = len(share) * jnp.sum(share * odds.mean(axis=0))
        if len(x) > 50:
            return nnx.relu(x @ self.w_in[0]) @ self.w_out[0], balance
        y = jnp.einsum("tef,efd->ted", nnx.relu(jnp.einsum("td,edf->tef", x, self.w_in[...])), self.w_out[...])
        chosen = jnp.take_along_axis(y, experts[:, :, None], axis=1)
        return jnp.sum(weights[:, :, None] * chosen, axis=1), balance
