"""Forges "absorbed products": keys and values are expanded in every step, by sums of products and in a loop over the heads."""

import jax
import jax.numpy as jnp
from flax import nnx
from p37_rope import rope

LOSES = ("absorbed products",)


class LatentAttention(nnx.Module):
    def __init__(self, d_model, num_heads, d_latent, d_rope, rope_base, rngs):
        self.H, self.K, self.C, self.R, self.base = num_heads, d_model // num_heads, d_latent, d_rope, rope_base
        self.q_proj = nnx.Linear(d_model, num_heads * (self.K + d_rope), use_bias=False, rngs=rngs)
        self.down_proj = nnx.Linear(d_model, d_latent + d_rope, use_bias=False, rngs=rngs)
        self.k_up = nnx.Linear(d_latent, d_model, use_bias=False, rngs=rngs)
        self.v_up = nnx.Linear(d_latent, d_model, use_bias=False, rngs=rngs)
        self.out_proj = nnx.Linear(d_model, d_model, use_bias=False, rngs=rngs)

    def empty_cache(self, context):
        return {"position": jnp.int32(0), "rows": jnp.zeros((context, self.C + self.R))}

    def decode_step(self, cache, x):
        at, C, K = cache["position"], self.C, self.K
        q = self.q_proj(x).reshape(1, self.H, K + self.R)
        q_rope = rope(q[..., K:], at[None], self.base)[0]
        down = self.down_proj(x)
        row = jnp.concatenate([down[:C], rope(down[None, None, C:], at[None], self.base)[0, 0]])
        rows = cache["rows"].at[at].set(row)
        up = [linear.kernel[...].reshape(C, self.H, K).swapaxes(0, 1) for linear in (self.k_up, self.v_up)]

        def head(inputs):
            q, q_rope, k_up, v_up = inputs
            k = jnp.sum(rows[:, :C, None] * k_up, axis=1)
            v = jnp.sum(rows[:, :C, None] * v_up, axis=1)
            scores = (k @ q + rows[:, C:] @ q_rope) / jnp.sqrt(K + self.R)
            return jax.nn.softmax(jnp.where(jnp.arange(len(rows)) <= at, scores, -1e9)) @ v

        heads = jax.lax.map(head, (q[0, :, :K], q_rope, *up))
        return self.out_proj(heads.reshape(-1)), {"position": at + 1, "rows": rows}
