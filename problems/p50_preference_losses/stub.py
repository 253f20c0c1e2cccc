"""Problem 50: the losses of SFT and DPO.

The page is in pages/p50_preference_losses.md.
"""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int


def sft_loss(
    logits: Float[Array, "T V"],
    token_ids: Int[Array, "T"],
    is_answer: Bool[Array, "T"],
) -> Float[Array, ""]:
    """The mean cross-entropy of predicting the tokens of the answers, in nats.
    Returns 0 if there are none.

    logits: (T, V). Row t scores every candidate for token t+1. is_answer: (T,). Whether
    each token is part of an answer.
    """
    raise NotImplementedError


def answer_log_probability(
    logits: Float[Array, "T V"], token_ids: Int[Array, "T"], is_answer: Bool[Array, "T"]
) -> Float[Array, ""]:
    """The sum of the log-probabilities of the tokens of the answers. Same
    arguments as `sft_loss`."""
    raise NotImplementedError


def dpo_loss(
    policy_logits: Float[Array, "2 T V"],
    reference_logits: Float[Array, "2 T V"],
    token_ids: Int[Array, "2 T"],
    is_answer: Bool[Array, "2 T"],
    beta: float,
) -> Float[Array, ""]:
    """The loss of direct preference optimization for one pair: row 0 is the chosen
    answer, row 1 the rejected one.

    No gradient reaches `reference_logits`.
    """
    raise NotImplementedError
