"""Expands keys and values for a whole text and calls JAX's attention; a step uses the absorbed products. Defines its
own rope."""

import jax
import jax.numpy as jnp
from flax import nnx


def rotate(x, positions, base):
    """x: (T, ..., R)."""
    half = x.shape[-1] // 2
    angles = jnp.multiply.outer(positions, base ** (-jnp.arange(half) / half))
    angles = angles.reshape(len(x), *[1] * (x.ndim - 2), half)
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) + a * jnp.sin(angles)], -1)


class LatentAttention(nnx.Module):
    def __init__(self, d_model, num_heads, d_latent, d_rope, rope_base, rngs):
        self.H, self.K, self.C, self.R, self.base = num_heads, d_model // num_heads, d_latent, d_rope, rope_base
        sizes = {
            "q_proj": (d_model, num_heads * (self.K + d_rope)), "down_proj": (d_model, d_latent + d_rope),
            "k_up": (d_latent, d_model), "v_up": (d_latent, d_model), "out_proj": (d_model, d_model),
        }  # fmt: skip
        for name, (start, to) in sizes.items():
            setattr(self, name, nnx.Linear(start, to, use_bias=False, rngs=rngs))

    def project(self, x, positions):
        q_latent, q_rope = jnp.split(self.q_proj(x).reshape(len(x), self.H, -1), [self.K], axis=-1)
        latent, k_rope = jnp.split(self.down_proj(x), [self.C], axis=-1)
        return q_latent, rotate(q_rope, positions, self.base), latent, rotate(k_rope, positions, self.base)

    def __call__(self, x, mask=None):
        T, H, K, R = len(x), self.H, self.K, self.R
        q_latent, q_rope, latent, k_rope = self.project(x, jnp.arange(T))
        keys = jnp.concatenate([self.k_up(latent).reshape(T, H, K), jnp.repeat(k_rope[:, None], H, axis=1)], axis=-1)
        values = jnp.pad(self.v_up(latent).reshape(T, H, K), ((0, 0), (0, 0), (0, R)))  # JAX wants one size
        mask = jnp.tril(jnp.ones((T, T), bool)) if mask is None else mask
        heads = jax.nn.dot_product_attention(jnp.concatenate([q_latent, q_rope], -1), keys, values, mask=mask[None])
        return self.out_proj(heads[..., :K].reshape(T, H * K))

    def empty_cache(self, context):
        return {"at": jnp.array(0), "c": jnp.zeros((context, self.C)), "k": jnp.zeros((context, self.R))}

    def decode_step(self, cache, x):
        at = cache["at"]
        q_latent, q_rope, latent, k_rope = (row[0] for row in self.project(x[None], at[None]))
        c, k = cache["c"].at[at].set(latent), cache["k"].at[at].set(k_rope)
        absorbed = jax.vmap(jnp.matmul)(self.k_up.kernel[...].reshape(self.C, self.H, self.K).swapaxes(0, 1), q_latent)
        scores = (absorbed @ c.T + q_rope @ k.T) / jnp.sqrt(self.K + self.R)
        weights = jax.nn.softmax(scores, where=jnp.arange(len(c)) <= at)
        up = self.v_up.kernel[...].reshape(self.C, self.H, self.K)
        heads = jnp.einsum("hc,chk->hk", weights @ c, up)
        return self.out_proj(heads.reshape(-1)), {"at": at + 1, "c": c, "k": k}
