"""One head at a time under `vmap`; the same method serves texts and steps, with a cache in a list."""

import jax
import jax.numpy as jnp
from flax import nnx
from p37_rope import rope


class LatentAttention(nnx.Module):
    def __init__(self, d_model, num_heads, d_latent, d_rope, rope_base, rngs):
        self.shape = num_heads, d_model // num_heads, d_latent, d_rope
        H, K, C, R = self.shape
        self.rope_base = rope_base
        for name, start, to in (
            ("q_proj", d_model, H * (K + R)), ("down_proj", d_model, C + R), ("k_up", C, d_model), ("v_up", C, d_model),
            ("out_proj", d_model, d_model),
        ):  # fmt: skip
            setattr(self, name, nnx.Linear(start, to, use_bias=False, rngs=rngs))

    def rows(self, x, positions):
        C = self.shape[2]
        down = self.down_proj(x)
        return down[:, :C], rope(jnp.expand_dims(down[:, C:], 1), positions, self.rope_base).squeeze(1)

    def attend(self, x, positions, latent, keys, mask):
        H, K, C, R = self.shape
        q = self.q_proj(x).reshape(len(x), H, K + R)
        q_rope = rope(q[:, :, K:], positions, self.rope_base)

        def head(q, q_rope, k_up, v_up):
            scores = ((q @ k_up.T) @ latent.T + q_rope @ keys.T) * (K + R) ** -0.5
            weights = jax.nn.softmax(scores, axis=-1, where=mask)
            return (weights @ latent) @ v_up

        ups = (linear.kernel[...].reshape(C, H, K) for linear in (self.k_up, self.v_up))
        heads = jax.vmap(head, in_axes=1, out_axes=1)(q[:, :, :K], q_rope, *ups)
        return self.out_proj(heads.reshape(len(x), H * K))

    def __call__(self, x, mask=None):
        positions = jnp.arange(len(x))
        mask = positions[None] <= positions[:, None] if mask is None else mask
        return self.attend(x, positions, *self.rows(x, positions), mask)

    def empty_cache(self, context):
        _, _, C, R = self.shape
        return [jnp.zeros(1, jnp.int32), jnp.zeros((context, C)), jnp.zeros((context, R))]

    def decode_step(self, cache, x):
        position, *stored = cache
        new = self.rows(x[None], position)
        stored = [old.at[position].set(row) for old, row in zip(stored, new, strict=True)]
        visible = jnp.arange(len(stored[0])) <= position[:, None]
        return self.attend(x[None], position, *stored, visible)[0], [position + 1, *stored]
