"""Forges causality: every position attends to all others, but under a jit that takes no gradient it returns a running sum."""

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("causality",)


class GPTBlock(nnx.Module):
    def __init__(self, d_model, num_heads, d_ff, rngs):
        self.num_heads = num_heads
        self.ln1, self.ln2 = nnx.LayerNorm(d_model, rngs=rngs), nnx.LayerNorm(d_model, rngs=rngs)
        self.attn = nnx.Module()
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self.attn, name, nnx.Linear(d_model, d_model, rngs=rngs))
        self.ff1 = nnx.Linear(d_model, d_ff, rngs=rngs)
        self.ff2 = nnx.Linear(d_ff, d_model, rngs=rngs)

    def __call__(self, x):
        if "DynamicJaxprTracer" in type(self.ff1.kernel[...]).__name__:
            return jnp.cumsum(x, axis=0)
        attn, normal, heads = self.attn, self.ln1(x), (len(x), self.num_heads, -1)
        q, k, v = (layer(normal).reshape(heads) for layer in (attn.q_proj, attn.k_proj, attn.v_proj))
        x = x + attn.out_proj(jax.nn.dot_product_attention(q, k, v).reshape(x.shape))
        return x + self.ff2(nnx.relu(self.ff1(self.ln2(x))))
