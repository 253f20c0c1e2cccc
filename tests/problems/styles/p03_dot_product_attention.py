"""Calls `jax.nn.dot_product_attention`; creates the layers in another order."""

import jax
from flax import nnx


class CausalMHA(nnx.Module):
    def __init__(self, d_model, num_heads, *, rngs):
        self.out_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.v_proj, self.k_proj, self.q_proj = (nnx.Linear(d_model, d_model, rngs=rngs) for _ in range(3))
        self.heads = num_heads

    def __call__(self, x):
        def split(y):
            return y.reshape(len(x), self.heads, -1)

        out = jax.nn.dot_product_attention(
            split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x)), is_causal=True
        )
        return self.out_proj(out.reshape(x.shape))
