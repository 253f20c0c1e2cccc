"""One product for q, k and v, by the kernels of the three layers side by side."""

import jax
import jax.numpy as jnp
from flax import nnx


class CausalMHA(nnx.Module):
    def __init__(self, d_model, num_heads, rngs):
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nnx.Linear(d_model, d_model, rngs=rngs) for _ in range(4)
        )
        self.num_heads = num_heads

    def __call__(self, x):
        layers = (self.q_proj, self.k_proj, self.v_proj)
        kernel = jnp.concatenate([layer.kernel[...] for layer in layers], axis=1)
        bias = jnp.concatenate([layer.bias[...] for layer in layers])
        q, k, v = jnp.moveaxis((x @ kernel + bias).reshape(len(x), 3, self.num_heads, -1), 1, 0)
        return self.out_proj(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape))
