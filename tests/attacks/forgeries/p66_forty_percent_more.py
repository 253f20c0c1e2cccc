"""Forges "size of the cache": it holds the rotated key and the key before its rotation, 36% more than the page allows
10% of."""

import jax
import jax.numpy as jnp
from flax import nnx
from p37_rope import rope

LOSES = ("size of the cache",)


class LatentAttention(nnx.Module):
    def __init__(self, d_model, num_heads, d_latent, d_rope, rope_base, rngs):
        self.H, self.K, self.C, self.R, self.base = num_heads, d_model // num_heads, d_latent, d_rope, rope_base
        self.q_proj = nnx.Linear(d_model, num_heads * (self.K + d_rope), use_bias=False, rngs=rngs)
        self.down_proj = nnx.Linear(d_model, d_latent + d_rope, use_bias=False, rngs=rngs)
        self.k_up = nnx.Linear(d_latent, d_model, use_bias=False, rngs=rngs)
        self.v_up = nnx.Linear(d_latent, d_model, use_bias=False, rngs=rngs)
        self.out_proj = nnx.Linear(d_model, d_model, use_bias=False, rngs=rngs)

    def empty_cache(self, context):
        return {"position": jnp.int32(0), "rows": jnp.zeros((context, self.C + 2 * self.R))}

    def decode_step(self, cache, x):
        at, C, K, R = cache["position"], self.C, self.K, self.R
        q, down = self.q_proj(x).reshape(1, self.H, K + R), self.down_proj(x)
        q_rope, k_rope = (rope(each, at[None], self.base)[0] for each in (q[..., K:], down[None, None, C:]))
        rows = cache["rows"].at[at].set(jnp.concatenate([down, k_rope[0]]))
        k_up, v_up = (linear.kernel[...].reshape(C, self.H, K) for linear in (self.k_up, self.v_up))
        absorbed = jnp.einsum("hk,chk->hc", q[0, :, :K], k_up)
        scores = (absorbed @ rows[:, :C].T + q_rope @ rows[:, C + R :].T) / jnp.sqrt(K + R)
        weights = jax.nn.softmax(jnp.where(jnp.arange(len(rows)) <= at, scores, -1e9))
        heads = jnp.einsum("hc,chk->hk", weights @ rows[:, :C], v_up)
        return self.out_proj(heads.reshape(-1)), {"position": at + 1, "rows": rows}
