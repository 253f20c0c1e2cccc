"""Uses log-softmax with one-hot targets, and the softplus of the negative margin."""

import jax
import jax.numpy as jnp


def _token_log_p(logits, ids):
    return jnp.einsum("tv,tv->t", jax.nn.log_softmax(logits[:-1]), jax.nn.one_hot(ids[1:], logits.shape[-1]))


def answer_log_probability(logits, token_ids, is_answer):
    return jnp.where(is_answer[1:], _token_log_p(logits, token_ids), 0).sum()


def sft_loss(logits, token_ids, is_answer):
    n = is_answer[1:].astype(jnp.float32).sum()
    return -answer_log_probability(logits, token_ids, is_answer) / jnp.where(n > 0, n, 1)


def dpo_loss(policy_logits, reference_logits, token_ids, is_answer, beta):
    def log_ratio(row):
        own = answer_log_probability(policy_logits[row], token_ids[row], is_answer[row])
        theirs = answer_log_probability(reference_logits[row], token_ids[row], is_answer[row])
        return own - jax.lax.stop_gradient(theirs)

    return jax.nn.softplus(beta * (log_ratio(1) - log_ratio(0)))
