"""Forges "absorbed products": the values of all earlier positions are made again in every step; what is saved is the
hidden positions, which the reference attends to and masks."""

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
        return {"at": jnp.int32(0), "rows": jnp.zeros((context, self.C + self.R))}

    def decode_step(self, cache, x):
        at, C, K, H = cache["at"], self.C, self.K, self.H
        q, down = (self.q_proj(x) / (K + self.R) ** 0.5).reshape(1, H, -1), self.down_proj(x)
        q_rope, k_rope = (rope(each, at[None], self.base)[0] for each in (q[..., K:], down[None, None, C:]))
        rows = jax.lax.dynamic_update_index_in_dim(cache["rows"], jnp.concatenate([down[:C], k_rope[0]]), at, 0)
        q = jnp.concatenate([jnp.einsum("hk,chk->hc", q[0, :, :K], self.k_up.kernel[...].reshape(C, H, K)), q_rope], 1)

        def add(state):
            s, total, out = state
            row = jax.lax.dynamic_index_in_dim(rows, s, 0, keepdims=False)
            weight = jnp.exp(q @ row)
            return s - 1, total + weight, out + weight[:, None] * (row[:C] @ self.v_up.kernel[...]).reshape(H, K)

        _, total, out = jax.lax.while_loop(lambda s: s[0] >= 0, add, (at, jnp.zeros(H), jnp.zeros((H, K))))
        return self.out_proj((out / total[:, None]).reshape(-1)), {"at": at + 1, "rows": rows}
