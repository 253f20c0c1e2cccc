"""A stable sort by expert: the place of a choice is its rank minus the start of its expert. vmap over the experts."""

import jax
import jax.numpy as jnp
from flax import nnx


class MixtureOfExperts(nnx.Module):
    def __init__(self, d_model, d_ff, num_experts, top_k, capacity, rngs):
        self.w_out = nnx.Param(jax.random.normal(rngs.params(), (num_experts, d_ff, d_model)) * d_ff**-0.5)
        self.w_in = nnx.Param(jax.random.normal(rngs.params(), (num_experts, d_model, d_ff)) * d_model**-0.5)
        self.router = nnx.Linear(d_model, num_experts, use_bias=False, rngs=rngs)
        self.num_experts, self.top_k, self.capacity = num_experts, top_k, capacity

    def __call__(self, x):
        T, D = x.shape
        logits = self.router(x)
        best, experts = jax.lax.top_k(logits, self.top_k)
        weights = jax.nn.softmax(best, axis=-1).ravel()  # of the chosen scores: the same as to renormalize
        experts = experts.ravel()
        order = jnp.argsort(experts, stable=True)
        counts = jnp.bincount(experts, length=self.num_experts)
        starts = jnp.cumsum(counts) - counts
        places = jnp.arange(len(order)) - starts[experts[order]]
        rows = jnp.where(
            places < self.capacity, experts[order] * self.capacity + places, self.num_experts * self.capacity
        )
        # One more row at the end takes whatever finds no room.
        buffer = jnp.zeros((self.num_experts * self.capacity + 1, D)).at[rows].set(x[order // self.top_k])
        inputs = buffer[:-1].reshape(self.num_experts, self.capacity, D)
        outputs = jax.vmap(lambda rows, a, b: jax.nn.relu(rows @ a) @ b)(inputs, self.w_in[...], self.w_out[...])
        outputs = jnp.concatenate([outputs.reshape(-1, D), jnp.zeros((1, D))])
        out = jnp.zeros_like(x).at[order // self.top_k].add(outputs[rows] * weights[order][:, None])
        p = jax.nn.softmax(logits).mean(0)
        return out, self.num_experts * jnp.vdot(counts / (T * self.top_k), p)
