"""Problem 01: token and position embedding.

The page is in pages/p01_token_embedding.md.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int


class TokenAndPositionEmbed(nnx.Module):
    """A vector for each token of the vocabulary, plus a vector for
    each of `max_T` positions."""

    def __init__(self, vocab_size: int, max_T: int, d_model: int, rngs: nnx.Rngs):
        """Creates `embed` (an nnx.Embed) and `pos_embed` (zeros,
        (max_T, d_model), trained)."""
        raise NotImplementedError

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T D"]:
        """Returns (T, D) for token_ids (T,). Raises ValueError if T is larger than
        max_T."""
        raise NotImplementedError
