"""Problem 14: the smallest model learns to repeat. The page is in pages/p14_a_to_a.md."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float, Int


class AToA(nnx.Module):
    """An embedding and a head, with nothing between."""

    def __init__(self, vocab_size: int, d_model: int, rngs: nnx.Rngs):
        """Makes `embed` (an nnx.Embed) and `head` (an nnx.Linear without bias)."""
        raise NotImplementedError

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        """token_ids: (T,). Returns logits, (T, V)."""
        raise NotImplementedError


def learn_identity(model: AToA, token_ids: Int[Array, "S B T"]) -> Float[Array, "S"]:
    """Trains the model in place to answer every token with itself, one step of Adam a batch.

    Returns the mean loss of each step, before its update.
    """
    raise NotImplementedError
