"""Rejects a long story first; uses `nnx.Embed.__call__` and `jnp.take`."""

import jax.numpy as jnp
from flax import nnx


class TokenAndPositionEmbed(nnx.Module):
    def __init__(self, vocab_size, max_T, d_model, rngs):
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.pos_embed = nnx.Param(jnp.zeros([max_T, d_model], jnp.float32))

    def __call__(self, token_ids):
        if token_ids.shape[0] > self.pos_embed.shape[0]:
            raise ValueError("a story longer than the table of positions")
        return self.embed(token_ids) + jnp.take(self.pos_embed[...], jnp.arange(token_ids.shape[0]), axis=0)
