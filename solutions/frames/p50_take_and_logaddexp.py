"""Gathers logits and subtracts their logsumexp; one batched log-softmax for both models."""

import jax
import jax.numpy as jnp


def _sums(logits, ids, mask):
    picked = jnp.take_along_axis(logits[..., :-1, :], ids[..., 1:, None], axis=-1)[..., 0]
    log_p = picked - jax.nn.logsumexp(logits[..., :-1, :], axis=-1)
    return (log_p * mask[..., 1:]).sum(-1)


def sft_loss(logits, token_ids, is_answer):
    return -_sums(logits, token_ids, is_answer) / jnp.maximum(is_answer.sum(), 1)


def answer_log_probability(logits, token_ids, is_answer):
    return _sums(logits, token_ids, is_answer)


def dpo_loss(policy_logits, reference_logits, token_ids, is_answer, beta):
    both = jnp.stack([policy_logits, jax.lax.stop_gradient(reference_logits)])
    policy, reference = _sums(both, jnp.stack([token_ids] * 2), jnp.stack([is_answer] * 2))
    logits = beta * (policy - reference)
    return jnp.logaddexp(logits[0], logits[1]) - logits[0]
