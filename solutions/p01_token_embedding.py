"""Problem 01, reference: token ids become vectors that know their position."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int


class TokenAndPositionEmbed(nnx.Module):
    """One vector for each token of the vocabulary, plus one for each position up to `max_T`."""

    def __init__(self, vocab_size: int, max_T: int, d_model: int, rngs: nnx.Rngs):
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.pos_embed = nnx.Param(jnp.zeros((max_T, d_model)))

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T D"]:
        T, max_T = len(token_ids), self.pos_embed.shape[0]
        if T > max_T:
            raise ValueError(f"a story of {T} tokens does not fit into {max_T} positions")
        return self.embed(token_ids) + self.pos_embed[:T]
