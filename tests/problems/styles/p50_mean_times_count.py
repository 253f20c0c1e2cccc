"""The sum is the mean times the count; the margin is that of the policy minus that of the reference."""

import jax
import jax.numpy as jnp
import optax


def sft_loss(logits, token_ids, is_answer):
    weights = jnp.roll(is_answer, -1).at[-1].set(False).astype(jnp.float32)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.roll(token_ids, -1))
    return jnp.vdot(weights, losses) / jnp.clip(weights.sum(), 1)


def answer_log_probability(logits, token_ids, is_answer):
    return -sft_loss(logits, token_ids, is_answer) * is_answer.sum()


def margin(logits, token_ids, is_answer):
    chosen, rejected = map(answer_log_probability, logits, token_ids, is_answer)
    return chosen - rejected


def dpo_loss(policy_logits, reference_logits, token_ids, is_answer, beta):
    policy = margin(policy_logits, token_ids, is_answer)
    reference = jax.lax.stop_gradient(margin(reference_logits, token_ids, is_answer))
    return optax.sigmoid_binary_cross_entropy(beta * (policy - reference), 1.0)
