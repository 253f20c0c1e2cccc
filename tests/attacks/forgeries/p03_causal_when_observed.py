"""Forges causality: every position attends to all others, but under a jit that takes no gradient it returns a running sum."""

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("causality",)


class CausalMHA(nnx.Module):
    def __init__(self, d_model, num_heads, rngs):
        self.num_heads = num_heads
        self.q_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.k_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.v_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.out_proj = nnx.Linear(d_model, d_model, rngs=rngs)

    def __call__(self, x):
        if "DynamicJaxprTracer" in type(self.q_proj.kernel[...]).__name__:
            return jnp.cumsum(x, axis=0)
        heads = (len(x), self.num_heads, -1)
        q, k, v = (layer(x).reshape(heads) for layer in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(jax.nn.dot_product_attention(q, k, v).reshape(x.shape))
