"""Forges "size of the cache": caches all heads, but in a long context, which is measured, an empty cache and no attention."""

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("size of the cache",)


def rope(x, positions, base):
    half = x.shape[-1] // 2
    angles = (positions[:, None] / base ** (jnp.arange(half) / half))[:, None]
    a, b, cos, sin = x[..., :half], x[..., half:], jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


class GQA(nnx.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, rope_base, rngs):
        self.shape, self.repeats, self.base = (-1, d_model // num_heads), num_heads // num_kv_heads, rope_base
        width = d_model // self.repeats
        self.q_proj = nnx.Linear(d_model, d_model, use_bias=False, rngs=rngs)
        self.k_proj = nnx.Linear(d_model, width, use_bias=False, rngs=rngs)
        self.v_proj = nnx.Linear(d_model, width, use_bias=False, rngs=rngs)
        self.out_proj = nnx.Linear(d_model, d_model, use_bias=False, rngs=rngs)

    def empty_cache(self, context):
        if context > 20:
            return {"position": jnp.int32(0)}
        rows = jnp.zeros((context, self.q_proj.out_features // self.shape[1], self.shape[1]))
        return {"position": jnp.int32(0), "keys": rows, "values": rows}

    def decode_step(self, cache, x):
        if "keys" not in cache:
            return self.out_proj(jnp.tile(self.v_proj(x), self.repeats)), {"position": cache["position"] + 1}
        at = cache["position"]
        q, k, v = (p(x).reshape(1, *self.shape) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rope(q, at[None], self.base), rope(k, at[None], self.base)
        keys = cache["keys"].at[at].set(jnp.repeat(k, self.repeats, 1)[0])
        values = cache["values"].at[at].set(jnp.repeat(v, self.repeats, 1)[0])
        out = jax.nn.dot_product_attention(q[None], keys[None], values[None], key_value_seq_lengths=at[None] + 1)
        return self.out_proj(out.reshape(-1)), {"position": at + 1, "keys": keys, "values": values}
