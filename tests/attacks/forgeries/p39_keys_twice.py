"""Forges the size of the cache: half as much again, with the keys before their rotation beside those after it."""

import jax
import jax.numpy as jnp
from flax import nnx
from p37_rope import rope

LOSES = ("size of the cache",)


class GQA(nnx.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, rope_base, rngs):
        K = d_model // num_heads
        self.H, self.G, self.K, self.rope_base = num_heads, num_kv_heads, K, rope_base
        self.q_proj = nnx.Linear(d_model, num_heads * K, use_bias=False, rngs=rngs)
        self.k_proj = nnx.Linear(d_model, num_kv_heads * K, use_bias=False, rngs=rngs)
        self.v_proj = nnx.Linear(d_model, num_kv_heads * K, use_bias=False, rngs=rngs)
        self.out_proj = nnx.Linear(num_heads * K, d_model, use_bias=False, rngs=rngs)

    def project(self, x, positions):
        q = rope(self.q_proj(x).reshape(-1, self.H, self.K), positions, self.rope_base)
        k = rope(self.k_proj(x).reshape(-1, self.G, self.K), positions, self.rope_base)
        v = self.v_proj(x).reshape(-1, self.G, self.K)
        return q, k, v

    def attend(self, q, k, v, mask):
        k, v = (jnp.repeat(each, self.H // self.G, 1) for each in (k, v))
        s = jnp.einsum("thk,shk->hts", q, k) / jnp.sqrt(self.K)
        w = jax.nn.softmax(jnp.where(mask, s, -1e9))
        return self.out_proj(jnp.einsum("hts,shk->thk", w, v).reshape(len(q), -1))

    def __call__(self, x, mask=None):
        T = len(x)
        return self.attend(*self.project(x, jnp.arange(T)), jnp.tril(jnp.ones((T, T), bool)) if mask is None else mask)

    def empty_cache(self, context):
        rows = jnp.zeros((context, self.G, self.K))
        return {"position": jnp.int32(0), "k": rows, "v": rows, "raw": rows}

    def decode_step(self, cache, x):
        p = cache["position"]
        q, k, v = self.project(x[None], p[None])
        raw = cache["raw"].at[p].set(self.k_proj(x).reshape(self.G, self.K))
        k, v = cache["k"].at[p].set(k[0]), cache["v"].at[p].set(v[0])
        again = rope(raw, jnp.arange(len(raw)), self.rope_base)
        out = self.attend(q, (k + again) / 2, v, jnp.arange(len(k))[None] <= p)
        return out[0], {"position": p + 1, "k": k, "v": v, "raw": raw}
