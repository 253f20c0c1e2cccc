"""Problem 50, reference: the losses of supervised fine-tuning and of direct preference optimization."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int


def sft_loss(logits: Float[Array, "T V"], token_ids: Int[Array, "T"], is_answer: Bool[Array, "T"]) -> Float[Array, ""]:
    """The mean cross-entropy, in nats, of the targets that are part of an answer; 0 if there are none."""
    losses = optax.softmax_cross_entropy_with_integer_labels(logits[:-1], token_ids[1:])
    counts = is_answer[1:]
    return jnp.sum(losses * counts) / jnp.maximum(jnp.sum(counts), 1)


def answer_log_probability(
    logits: Float[Array, "T V"], token_ids: Int[Array, "T"], is_answer: Bool[Array, "T"]
) -> Float[Array, ""]:
    """The sum of the log-probabilities of the targets that are part of an answer."""
    log_p = -optax.softmax_cross_entropy_with_integer_labels(logits[:-1], token_ids[1:])
    return jnp.sum(log_p * is_answer[1:])


def dpo_loss(
    policy_logits: Float[Array, "2 T V"],
    reference_logits: Float[Array, "2 T V"],
    token_ids: Int[Array, "2 T"],
    is_answer: Bool[Array, "2 T"],
    beta: float,
) -> Float[Array, ""]:
    """The loss of one pair (Rafailov et al. 2023, equation 7). Row 0 is the chosen answer, row 1 the rejected one."""
    frozen_logits = jax.lax.stop_gradient(reference_logits)
    policy = jax.vmap(answer_log_probability)(policy_logits, token_ids, is_answer)
    reference = jax.vmap(answer_log_probability)(frozen_logits, token_ids, is_answer)
    rewards = beta * (policy - reference)
    return -jax.nn.log_sigmoid(rewards[0] - rewards[1])
