"""Forges "only the chosen experts run with gradients": the places are used only where no gradient is taken; for
gradients, all experts run for all tokens."""

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("only the chosen experts run with gradients",)


class MixtureOfExperts(nnx.Module):
    def __init__(self, d_model, d_ff, num_experts, top_k, capacity, rngs):
        initial = nnx.initializers.lecun_normal(batch_axis=0)
        self.router = nnx.Linear(d_model, num_experts, use_bias=False, rngs=rngs)
        self.w_in = nnx.Param(initial(rngs.params(), (num_experts, d_model, d_ff)))
        self.w_out = nnx.Param(initial(rngs.params(), (num_experts, d_ff, d_model)))
        self.top_k, self.capacity = top_k, capacity

    def __call__(self, x):
        odds = jax.nn.softmax(self.router(x))
        E, C = odds.shape[1], self.capacity
        weights, experts = jax.lax.top_k(odds, self.top_k)
        weights = weights / weights.sum(axis=1, keepdims=True)
        chosen = jax.nn.one_hot(experts.reshape(-1), E, dtype=jnp.int32)
        place = jnp.sum((jnp.cumsum(chosen, axis=0) - 1) * chosen, axis=1).reshape(experts.shape)

        def placed(x, weights, w_in, w_out):
            rows = jnp.zeros((E, C, x.shape[1])).at[experts, place].set(x[:, None], mode="drop")
            y = jnp.einsum("ecf,efd->ecd", nnx.relu(jnp.einsum("ecd,edf->ecf", rows, w_in)), w_out)
            return jnp.sum(weights[:, :, None] * y.at[experts, place].get(mode="fill", fill_value=0), axis=1)

        def every(x, weights, w_in, w_out):
            mine = jnp.einsum("tk,tke->te", weights * (place < C), jax.nn.one_hot(experts, E))
            return jnp.einsum("te,tef,efd->td", mine, nnx.relu(jnp.einsum("td,edf->tef", x, w_in)), w_out)

        mixed = jax.custom_vjp(placed)
        mixed.defvjp(lambda *args: jax.vjp(every, *args), lambda back, slope: back(slope))
        balance = E * jnp.sum(chosen.mean(axis=0) * odds.mean(axis=0))
        return mixed(x, weights, self.w_in[...], self.w_out[...]), balance
