"""Calls the attention and the causal mask of Flax."""

from flax import nnx


class CausalMHA(nnx.Module):
    def __init__(self, d_model, num_heads, rngs):
        self.heads = num_heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nnx.Linear(d_model, d_model, rngs=rngs))

    def __call__(self, x):
        q, k, v = (f(x).reshape(len(x), self.heads, -1) for f in (self.q_proj, self.k_proj, self.v_proj))
        mixed = nnx.dot_product_attention(q, k, v, mask=nnx.make_causal_mask(x[:, 0], dtype=bool))
        return self.out_proj(mixed.reshape(x.shape))
