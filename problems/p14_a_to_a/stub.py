"""Problem 14: the smallest model learns to repeat tokens.

The page is in pages/p14_a_to_a.md.
"""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float, Int


class AToA(nnx.Module):
    """An embedding and a head, with nothing in between."""

    def __init__(self, vocab_size: int, d_model: int, rngs: nnx.Rngs):
        """Creates `embed` (an nnx.Embed) and `head` (an nnx.Linear without bias)."""
        raise NotImplementedError

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        """The logits, (T, V), of token_ids, (T,)."""
        raise NotImplementedError


def learn_identity(model: AToA, token_ids: Int[Array, "S B T"]) -> Float[Array, "S"]:
    """Trains the model in place to answer every token with itself, with
    one step of Adam per batch.

    token_ids: (S, B, T), one batch for each of S steps. Returns (S,): the mean loss of
    each step, before its update.
    """
    raise NotImplementedError
