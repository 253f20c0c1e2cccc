"""Problem 07: next-token loss, the loss of a language model on one story.

The page is in pages/p07_next_token_loss.md.
"""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int


def next_token_loss(
    logits: Float[Array, "T V"],
    token_ids: Int[Array, "T"],
    pad_id: int,
) -> Float[Array, ""]:
    """The mean cross-entropy of predicting each token from the tokens before it.

    logits: (T, V). A row scores every candidate for the token that it predicts.
    token_ids: (T,). A story, right-padded with `pad_id`. Returns a scalar, in nats per
    predicted token. Padding does not count. Returns 0 if there is nothing to predict.
    """
    raise NotImplementedError
