"""One array of latent vectors and keys, which scores and values share; the position is the last entry of a tuple."""

import jax
import jax.numpy as jnp
from flax import nnx
from p37_rope import rope


class LatentAttention(nnx.Module):
    def __init__(self, d_model, num_heads, d_latent, d_rope, rope_base, rngs):
        head = d_model // num_heads

        def linear(start, to):
            return nnx.Linear(start, to, use_bias=False, rngs=rngs)

        self.out_proj = linear(d_model, d_model)
        self.v_up, self.k_up = linear(d_latent, d_model), linear(d_latent, d_model)
        self.down_proj = linear(d_model, d_latent + d_rope)
        self.q_proj = linear(d_model, num_heads * (head + d_rope))
        self.heads, self.head, self.latent, self.base = num_heads, head, d_latent, rope_base

    def _up(self, linear):
        return jnp.stack(jnp.split(linear.kernel[...], self.heads, axis=1))  # (H, C, K)

    def _rotate_end(self, x, positions, start):
        rotated = rope(x[..., start:].reshape(len(x), -1, x.shape[-1] - start), positions, self.base)
        return jnp.concatenate([x[..., :start], rotated.reshape(*x.shape[:-1], -1)], axis=-1)

    def _queries(self, x, positions):
        q = jnp.stack(jnp.split(self.q_proj(x), self.heads, axis=1), axis=1)
        q = self._rotate_end(q, positions, self.head)
        scale = q.shape[-1] ** -0.5
        absorbed = jnp.einsum("thk,hck->htc", q[..., : self.head], self._up(self.k_up))
        return scale * jnp.concatenate([absorbed, q[..., self.head :].swapaxes(0, 1)], axis=-1)

    def _attend(self, q, rows, mask):
        scores = jnp.where(mask, q @ rows.T, -1e9)
        weights = jnp.exp(scores - jax.nn.logsumexp(scores, axis=-1, keepdims=True))
        heads = (weights @ rows[:, : self.latent]) @ self._up(self.v_up)
        return self.out_proj(jnp.concatenate(list(heads), axis=-1))

    def __call__(self, x, mask=None):
        at = jnp.arange(x.shape[0])
        mask = at[:, None] >= at if mask is None else mask
        return self._attend(self._queries(x, at), self._rotate_end(self.down_proj(x), at, self.latent), mask)

    def empty_cache(self, context):
        return jnp.zeros((context, self.down_proj.out_features)), jnp.int32(0)

    def decode_step(self, cache, x):
        rows, at = cache
        row = self._rotate_end(self.down_proj(x[None]), at[None], self.latent)
        rows = jax.lax.dynamic_update_slice(rows, row, (at, 0))
        out = self._attend(self._queries(x[None], at[None]), rows, jnp.arange(len(rows)) <= at)
        return out[0], (rows, at + 1)
