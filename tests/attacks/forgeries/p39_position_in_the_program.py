"""Forges "one compilation": the position is part of the tree that the cache is, so each step is compiled for its own position."""

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("one compilation",)


@jax.tree_util.register_pytree_node_class
class Cache:
    def __init__(self, rows, position):
        self.rows, self.position = rows, position

    def tree_flatten(self):
        return (self.rows,), self.position

    @classmethod
    def tree_unflatten(cls, position, children):
        return cls(*children, position)


class GQA(nnx.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, rope_base, rngs):
        self.shape, self.base, width = (1, -1, d_model // num_heads), rope_base, d_model // num_heads * num_kv_heads
        for name, size in {"q_proj": d_model, "k_proj": width, "v_proj": width, "out_proj": d_model}.items():
            setattr(self, name, nnx.Linear(d_model, size, use_bias=False, rngs=rngs))

    def rope(self, x, position):
        half = x.shape[-1] // 2
        angles = position / self.base ** (jnp.arange(half) / half)
        a, b, cos, sin = x[..., :half], x[..., half:], jnp.cos(angles), jnp.sin(angles)
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)

    def empty_cache(self, context):
        return Cache(jnp.zeros((2, context, self.k_proj.out_features // self.shape[2], self.shape[2])), 0)

    def decode_step(self, cache, x):
        t = cache.position
        q, k, v = (p(x).reshape(self.shape) for p in (self.q_proj, self.k_proj, self.v_proj))
        rows = cache.rows.at[:, t].set(jnp.concatenate([self.rope(k, t), v]))
        out = jax.nn.dot_product_attention(self.rope(q, t)[None], rows[:1, : t + 1], rows[1:, : t + 1])
        return self.out_proj(out.reshape(-1)), Cache(rows, t + 1)
