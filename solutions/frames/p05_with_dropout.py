"""Also has dropout with rate 0, whose random state is not a parameter."""

import jax
from flax import nnx


class CausalMHA(nnx.Module):
    def __init__(self, d_model, num_heads, rngs):
        self.num_heads = num_heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nnx.Linear(d_model, d_model, rngs=rngs))

    def __call__(self, x):
        q, k, v = (f(x).reshape(x.shape[0], self.num_heads, -1) for f in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape))


class GPTBlock(nnx.Module):
    def __init__(self, d_model, num_heads, d_ff, rngs):
        self.ln1 = nnx.LayerNorm(d_model, rngs=rngs)
        self.attn = CausalMHA(d_model, num_heads, rngs=rngs)
        self.ln2 = nnx.LayerNorm(d_model, rngs=rngs)
        self.ff1 = nnx.Linear(d_model, d_ff, rngs=rngs)
        self.ff2 = nnx.Linear(d_ff, d_model, rngs=rngs)
        self.drop = nnx.Dropout(0.0, rngs=rngs)

    def __call__(self, x):
        x = x + self.drop(self.attn(self.ln1(x)))
        return x + self.drop(self.ff2(nnx.relu(self.ff1(self.ln2(x)))))
