"""`jax.nn.dot_product_attention`, which groups heads itself."""

import jax
import jax.numpy as jnp
from flax import nnx
from p37_rope import rope


class GQA(nnx.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, rope_base, head_dim=None, *, rngs):
        self.k = d_model // num_heads if head_dim is None else head_dim
        self.base = rope_base
        self.q_proj = nnx.Linear(d_model, num_heads * self.k, use_bias=False, rngs=rngs)
        self.k_proj = nnx.Linear(d_model, num_kv_heads * self.k, use_bias=False, rngs=rngs)
        self.v_proj = nnx.Linear(d_model, num_kv_heads * self.k, use_bias=False, rngs=rngs)
        self.out_proj = nnx.Linear(num_heads * self.k, d_model, use_bias=False, rngs=rngs)

    def __call__(self, x, mask=None):
        t = x.shape[0]
        positions = jnp.arange(t)
        q = rope(self.q_proj(x).reshape(t, -1, self.k), positions, self.base)
        k = rope(self.k_proj(x).reshape(t, -1, self.k), positions, self.base)
        v = self.v_proj(x).reshape(t, -1, self.k)
        if mask is None:
            out = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        else:
            out = jax.nn.dot_product_attention(q, k, v, mask=mask[None])
        return self.out_proj(out.reshape(t, -1))

    def empty_cache(self, context):
        shape = (context, self.k_proj.out_features // self.k, self.k)
        return {"k": jnp.zeros(shape), "v": jnp.zeros(shape), "n": jnp.zeros((), jnp.int32)}

    def decode_step(self, cache, x):
        n = cache["n"]
        here = n.reshape(1)
        q = rope(self.q_proj(x).reshape(1, -1, self.k), here, self.base)
        k = rope(self.k_proj(x).reshape(1, -1, self.k), here, self.base)
        ks, vs = cache["k"].at[n].set(k[0]), cache["v"].at[n].set(self.v_proj(x).reshape(-1, self.k))
        out = jax.nn.dot_product_attention(q[None], ks[None], vs[None], key_value_seq_lengths=here + 1)
        return self.out_proj(out.reshape(-1)), {"k": ks, "v": vs, "n": n + 1}
