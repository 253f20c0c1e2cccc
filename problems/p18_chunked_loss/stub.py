"""Problem 18: a loss in chunks. The page is in pages/p18_chunked_loss.md."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int


def chunked_loss(
    x: Float[Array, "T D"],
    embedding: Float[Array, "V D"],
    token_ids: Int[Array, "T"],
    pad_id: int,
    chunk: int,
) -> Float[Array, ""]:
    """Equals next_token_loss(x @ embedding.T, token_ids, pad_id), with the logits of at
    most `chunk` rows at a time.

    x: (T, D). embedding: (V, D). token_ids: (T,). Returns a scalar.
    """
    raise NotImplementedError
