"""Problem 01: token ids become vectors that know their position. The page is in pages/p01_token_embedding.md."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int


class TokenAndPositionEmbed(nnx.Module):
    """One vector for each token of the vocabulary, plus one for each position up to `max_T`."""

    def __init__(self, vocab_size: int, max_T: int, d_model: int, rngs: nnx.Rngs):
        """Makes `embed` (an nnx.Embed) and `pos_embed` (an nnx.Param of zeros, (max_T, d_model))."""
        raise NotImplementedError

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T D"]:
        """token_ids: (T,), T at most max_T. Returns (T, D). Raises ValueError if T is larger than max_T."""
        raise NotImplementedError
