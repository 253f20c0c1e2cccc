"""Forges the size of the cache: all heads of keys and values, as complex numbers."""

import jax
import jax.numpy as jnp
from flax import nnx
from p37_rope import rope

LOSES = ("size of the cache",)


class GQA(nnx.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, rope_base, head_dim=None, *, rngs):
        K = head_dim or d_model // num_heads
        self.H, self.G, self.K, self.rope_base = num_heads, num_kv_heads, K, rope_base
        self.q_proj = nnx.Linear(d_model, num_heads * K, use_bias=False, rngs=rngs)
        self.k_proj = nnx.Linear(d_model, num_kv_heads * K, use_bias=False, rngs=rngs)
        self.v_proj = nnx.Linear(d_model, num_kv_heads * K, use_bias=False, rngs=rngs)
        self.out_proj = nnx.Linear(num_heads * K, d_model, use_bias=False, rngs=rngs)

    def project(self, x, positions):
        R = self.H // self.G
        q = rope(self.q_proj(x).reshape(-1, self.H, self.K), positions, self.rope_base)
        k = rope(self.k_proj(x).reshape(-1, self.G, self.K), positions, self.rope_base)
        v = self.v_proj(x).reshape(-1, self.G, self.K)
        return q, jnp.repeat(k, R, 1), jnp.repeat(v, R, 1)

    def attend(self, q, k, v, mask):
        s = jnp.einsum("thk,shk->hts", q, k) / jnp.sqrt(self.K)
        w = jax.nn.softmax(jnp.where(mask, s, -1e9))
        return self.out_proj(jnp.einsum("hts,shk->thk", w, v).reshape(len(q), -1))

    def __call__(self, x, mask=None):
        T = len(x)
        return self.attend(*self.project(x, jnp.arange(T)), jnp.tril(jnp.ones((T, T), bool)) if mask is None else mask)

    def empty_cache(self, context):
        return {"position": jnp.int32(0), "kv": jnp.zeros((context, self.H, self.K), jnp.complex64)}

    def decode_step(self, cache, x):
        p = cache["position"]
        q, k, v = self.project(x[None], p[None])
        kv = cache["kv"].at[p].set(jax.lax.complex(k[0], v[0]))
        out = self.attend(q, kv.real, kv.imag, jnp.arange(len(kv))[None] <= p)
        return out[0], {"position": p + 1, "kv": kv}
