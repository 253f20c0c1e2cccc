"""lax.map over the experts: each gathers its first C tokens by a sort of flags, and the results are added up."""

import jax
import jax.numpy as jnp
from flax import nnx


class MixtureOfExperts(nnx.Module):
    def __init__(self, d_model, d_ff, num_experts, top_k, capacity, *, rngs):
        init = nnx.initializers.normal(0.02)
        self.router = nnx.Linear(d_model, num_experts, use_bias=False, kernel_init=init, rngs=rngs)
        self.w_in = nnx.Param(init(rngs.params(), (num_experts, d_model, d_ff), jnp.float32))
        self.w_out = nnx.Param(init(rngs.params(), (num_experts, d_ff, d_model), jnp.float32))
        self.k, self.room = top_k, capacity

    def __call__(self, x):
        T, D = x.shape
        E = self.router.kernel.shape[1]
        probabilities = jax.nn.softmax(x @ self.router.kernel[...], axis=-1)
        values, indices = jax.lax.top_k(probabilities, self.k)
        total = values.sum(-1)
        room = min(self.room, T)

        def expert(args):
            e, a, b = args
            mine = indices == e
            wanted = mine.any(-1)
            tokens = jnp.argsort(~wanted, stable=True)[:room]  # those that want e first, in their order
            weight = jnp.where(wanted, (values * mine).sum(-1) / total, 0)[tokens]
            return tokens, weight[:, None] * (jnp.maximum(x[tokens] @ a, 0) @ b)

        tokens, rows = jax.lax.map(expert, (jnp.arange(E), self.w_in[...], self.w_out[...]))
        out = jnp.zeros((T, D)).at[tokens.ravel()].add(rows.reshape(-1, D))
        share = (indices[:, :, None] == jnp.arange(E)).sum((0, 1)) / indices.size
        return out, E * (share * probabilities.mean(0)).sum()
