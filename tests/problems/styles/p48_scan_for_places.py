"""A scan gives out the places one choice after another; a matrix of token numbers for each expert; masks."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax


class MixtureOfExperts(nnx.Module):
    def __init__(self, d_model, d_ff, num_experts, top_k, capacity, rngs):
        make = nnx.initializers.he_normal(in_axis=-2, out_axis=-1, batch_axis=(0,))
        self.w_in = nnx.Param(make(rngs.params(), (num_experts, d_model, d_ff)))
        self.w_out = nnx.Param(make(rngs.params(), (num_experts, d_ff, d_model)))
        self.router = nnx.Linear(d_model, num_experts, use_bias=False, rngs=rngs)
        self.sizes = (num_experts, top_k, capacity)

    def __call__(self, x):
        E, k, C = self.sizes
        T = x.shape[0]
        gate = jax.nn.softmax(self.router(x), axis=1)
        order = jnp.argsort(gate, axis=1, descending=True)[:, :k]
        weight = jnp.take_along_axis(gate, order, axis=1)
        weight = weight / jnp.sum(weight, axis=1)[:, None]

        def take(counts, e):
            return counts.at[e].add(1), counts[e]

        counts, place = lax.scan(take, jnp.zeros(E, jnp.int32), order.reshape(T * k))
        flat, place = order.reshape(T * k), place
        fits = place < C
        slot = jnp.where(fits, place, 0)
        who = jnp.full((E, C + 1), T).at[flat, jnp.where(fits, place, C)].set(jnp.arange(T * k) // k)[:, :C]
        padded = jnp.concatenate([x, jnp.zeros((1, x.shape[1]))])
        hidden = lax.batch_matmul(padded[who], self.w_in[...])
        result = lax.batch_matmul(hidden * (hidden > 0), self.w_out[...])
        back = jnp.where(fits[:, None], result[flat, slot], 0).reshape(T, k, -1)
        loss = jnp.sum(counts * gate.sum(axis=0)) * E / (T * T * k)
        return jnp.einsum("tk,tkd->td", weight, back), loss
