"""The sum is the mean times the count, over targets chosen by NumPy, which cannot be traced; the margin is that of the
policy minus that of the reference.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax


def sft_loss(logits, token_ids, is_answer):
    targets = np.flatnonzero(is_answer)
    if targets.size == 0:
        return jnp.float32(0)
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits[targets - 1], token_ids[targets]))


def answer_log_probability(logits, token_ids, is_answer):
    return -sft_loss(logits, token_ids, is_answer) * is_answer.sum()


def margin(logits, token_ids, is_answer):
    chosen, rejected = map(answer_log_probability, logits, token_ids, is_answer)
    return chosen - rejected


def dpo_loss(policy_logits, reference_logits, token_ids, is_answer, beta):
    policy = margin(policy_logits, token_ids, is_answer)
    reference = jax.lax.stop_gradient(margin(reference_logits, token_ids, is_answer))
    return optax.sigmoid_binary_cross_entropy(beta * (policy - reference), 1.0)
