"""One head after the other; the cache holds keys that are not rotated, and all are rotated when they are read."""

import jax
import jax.numpy as jnp
from flax import nnx


def turn(x, positions, base):
    half = x.shape[-1] // 2
    angles = positions[:, None] / base ** (jnp.arange(half) / half)
    a, b = x[:, :half], x[:, half:]
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) + a * jnp.sin(angles)], -1)


class GQA(nnx.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, rope_base, head_dim=None, *, rngs):
        self.heads, self.kv, self.base = num_heads, num_kv_heads, rope_base
        self.width = head_dim or d_model // num_heads
        for name, size in {"q_proj": num_heads, "k_proj": num_kv_heads, "v_proj": num_kv_heads}.items():
            setattr(self, name, nnx.Linear(d_model, size * self.width, use_bias=False, rngs=rngs))
        self.out_proj = nnx.Linear(num_heads * self.width, d_model, use_bias=False, rngs=rngs)

    def attend(self, q, k, v, at, visible):
        outs = []
        for h in range(self.heads):
            g, w = h * self.kv // self.heads, self.width
            query = turn(q[:, h * w : (h + 1) * w], at, self.base)
            key = turn(k[:, g * w : (g + 1) * w], jnp.arange(len(k)), self.base)
            weights = jax.nn.softmax(jnp.where(visible, query @ key.T / w**0.5, -1e9))
            outs.append(weights @ v[:, g * w : (g + 1) * w])
        return self.out_proj(jnp.concatenate(outs, axis=-1))

    def __call__(self, x, mask=None):
        visible = jnp.tri(len(x), dtype=bool) if mask is None else mask
        return self.attend(self.q_proj(x), self.k_proj(x), self.v_proj(x), jnp.arange(len(x)), visible)

    def empty_cache(self, context):
        return [jnp.zeros((context, self.kv * self.width)), jnp.zeros((context, self.kv * self.width)), jnp.int32(0)]

    def decode_step(self, cache, x):
        k, v, t = cache
        k, v = k.at[t].set(self.k_proj(x)), v.at[t].set(self.v_proj(x))
        return self.attend(self.q_proj(x[None]), k, v, t[None], jnp.arange(len(k)) <= t)[0], [k, v, t + 1]
