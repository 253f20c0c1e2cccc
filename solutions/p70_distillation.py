"""Problem 70, reference: losses of distillation (Hinton et al. 2015; Kim and Rush 2016; Agarwal et al. 2023)."""

import jax
import jax.numpy as jnp
import optax
from jax.scipy.special import logsumexp, xlogy
from jaxtyping import Array, Bool, Float, Int


def token_loss(
    student_logits: Float[Array, "T V"],
    teacher_logits: Float[Array, "T V"],
    token_ids: Int[Array, "T"],
    is_target: Bool[Array, "T"],
    temperature: float,
    soft_weight: float,
) -> Float[Array, ""]:
    """The mean of the soft and of the hard loss over the targets, in nats; 0 if there are none."""
    frozen_logits = jax.lax.stop_gradient(teacher_logits)
    log_p = jax.nn.log_softmax(frozen_logits / temperature)
    log_q = jax.nn.log_softmax(student_logits / temperature)
    divergence = jnp.sum(jnp.exp(log_p) * (log_p - log_q), axis=-1)
    soft = temperature**2 * divergence[:-1]
    hard = optax.softmax_cross_entropy_with_integer_labels(student_logits[:-1], token_ids[1:])
    losses = soft_weight * soft + (1 - soft_weight) * hard
    counts = is_target[1:]
    return jnp.sum(losses * counts) / jnp.maximum(jnp.sum(counts), 1)


def top_k_targets(
    teacher_logits: Float[Array, "T V"], k: int, temperature: float
) -> tuple[Int[Array, "T k"], Float[Array, "T k"]]:
    """The k most likely tokens of each row, and their log-probabilities among all tokens."""
    log_p, ids = jax.lax.top_k(jax.nn.log_softmax(teacher_logits / temperature), k)
    return ids, log_p


def top_k_loss(
    student_logits: Float[Array, "T V"], ids: Int[Array, "T k"], log_p: Float[Array, "T k"], temperature: float
) -> Float[Array, ""]:
    """The mean soft loss over the k tokens and a last outcome, any other token."""
    (T, V), k = student_logits.shape, ids.shape[1]
    log_p = jax.lax.stop_gradient(log_p)
    log_q_TV = jax.nn.log_softmax(student_logits / temperature)
    log_q = jnp.take_along_axis(log_q_TV, ids, axis=1)
    divergence = jnp.sum(jnp.exp(log_p) * (log_p - log_q), axis=1)
    if k < V:
        rest = jnp.maximum(1 - jnp.sum(jnp.exp(log_p), axis=1), 0)
        log_q_rest = logsumexp(log_q_TV.at[jnp.arange(T)[:, None], ids].set(-jnp.inf), axis=1)
        divergence += xlogy(rest, rest) - rest * log_q_rest
    return temperature**2 * jnp.mean(divergence)


def sequence_loss(
    student_logits: Float[Array, "B T V"], token_ids: Int[Array, "B T"], is_written: Bool[Array, "B T"]
) -> Float[Array, ""]:
    """The mean over the texts of minus the log-probability of what the teacher wrote."""
    losses = optax.softmax_cross_entropy_with_integer_labels(student_logits[:, :-1], token_ids[:, 1:])
    return jnp.mean(jnp.sum(losses * is_written[:, 1:], axis=1))


def on_policy_loss(
    student_logits: Float[Array, "B T V"], teacher_logits: Float[Array, "B T V"], is_written: Bool[Array, "B T"]
) -> Float[Array, ""]:
    """The mean reverse divergence over what the student wrote, in nats; 0 if it wrote nothing."""
    own_log_q = jax.nn.log_softmax(student_logits)
    own_log_p = jax.nn.log_softmax(jax.lax.stop_gradient(teacher_logits))
    reverse = jnp.sum(jnp.exp(own_log_q) * (own_log_q - own_log_p), axis=-1)
    written = is_written[:, 1:]
    return jnp.sum(reverse[:, :-1] * written) / jnp.maximum(jnp.sum(written), 1)
