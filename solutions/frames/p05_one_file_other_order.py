"""One file; creates the layers in reverse order; one product for q, k and v; calls JAX's own attention."""

import jax
from flax import nnx


class CausalMHA(nnx.Module):
    def __init__(self, d_model, num_heads, rngs):
        self.num_heads = num_heads
        for name in ("out_proj", "v_proj", "k_proj", "q_proj"):
            setattr(self, name, nnx.Linear(d_model, d_model, rngs=rngs))

    def __call__(self, x):
        layers = (self.q_proj, self.k_proj, self.v_proj)
        kernel = jax.numpy.hstack([layer.kernel[...] for layer in layers])
        bias = jax.numpy.hstack([layer.bias[...] for layer in layers])
        q, k, v = jax.numpy.split((x @ kernel + bias).reshape(x.shape[0], 3 * self.num_heads, -1), 3, axis=1)
        return self.out_proj(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape))


class GPTBlock(nnx.Module):
    def __init__(self, d_model, num_heads, d_ff, rngs):
        self.ff2 = nnx.Linear(d_ff, d_model, rngs=rngs)
        self.ff1 = nnx.Linear(d_model, d_ff, rngs=rngs)
        self.ln2, self.ln1 = nnx.LayerNorm(d_model, rngs=rngs), nnx.LayerNorm(d_model, rngs=rngs)
        self.attn = CausalMHA(d_model, num_heads, rngs)

    def feed_forward(self, x):
        return self.ff2(jax.numpy.maximum(self.ff1(self.ln2(x)), 0))

    def __call__(self, x):
        after_attention = self.attn(self.ln1(x)) + x
        return self.feed_forward(after_attention) + after_attention
