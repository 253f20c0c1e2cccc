"""Keeps the mask in the module as a plain array; loops over the heads."""

import jax
import jax.numpy as jnp
from flax import nnx


class CausalMHA(nnx.Module):
    def __init__(self, d_model, num_heads, rngs):
        self.q_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.k_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.v_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.out_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.width, self.heads = d_model // num_heads, num_heads
        self.mask = jnp.tril(jnp.ones((64, 64), dtype=bool))

    def __call__(self, x):
        t = x.shape[0]
        parts = []
        for h in range(self.heads):
            mine = slice(h * self.width, (h + 1) * self.width)
            q, k, v = self.q_proj(x)[:, mine], self.k_proj(x)[:, mine], self.v_proj(x)[:, mine]
            scores = jnp.where(self.mask[:t, :t], q @ k.T / self.width**0.5, -1e9)
            parts.append(jax.nn.softmax(scores, axis=-1) @ v)
        return self.out_proj(jnp.concatenate(parts, axis=-1))
