"""Problem 07, reference: the loss of a language model on one story."""

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int


def next_token_loss(logits: Float[Array, "T V"], token_ids: Int[Array, "T"], pad_id: int) -> Float[Array, ""]:
    """The mean cross-entropy, in nats, of the tokens that are not padding; 0 if there are none."""
    predictions, targets = logits[:-1], token_ids[1:]
    losses = optax.softmax_cross_entropy_with_integer_labels(predictions, targets)
    counts = targets != pad_id
    return jnp.sum(losses * counts) / jnp.maximum(jnp.sum(counts), 1)
