"""Optax's divergence with targets as logarithms; the other tokens are a last column of logits."""

import jax
import jax.numpy as jnp
import optax
from jax import lax


def token_loss(student_logits, teacher_logits, token_ids, is_target, temperature, soft_weight):
    teacher = lax.stop_gradient(jax.nn.log_softmax(teacher_logits / temperature, -1))
    student = jax.nn.log_softmax(student_logits / temperature, -1)
    soft = optax.losses.kl_divergence_with_log_targets(student, teacher)[:-1] * temperature**2
    one_hot = jax.nn.one_hot(token_ids[1:], student_logits.shape[1])
    hard = optax.softmax_cross_entropy(student_logits[:-1], one_hot)
    weights = is_target[1:].astype(jnp.float32)
    mean = weights / jnp.maximum(weights.sum(), 1.0)
    return soft_weight * (mean @ soft) + (1.0 - soft_weight) * (mean @ hard)


def top_k_targets(teacher_logits, k, temperature):
    kept, ids = lax.top_k(teacher_logits, k)
    return ids, kept / temperature - jax.nn.logsumexp(teacher_logits / temperature, axis=1)[:, None]


def top_k_loss(student_logits, ids, log_p, temperature):
    scaled = student_logits / temperature
    V, k = scaled.shape[1], ids.shape[1]
    is_kept = (ids[:, :, None] == jnp.arange(V)).any(axis=1)
    p = jnp.exp(lax.stop_gradient(log_p))
    logits = jnp.take_along_axis(scaled, ids, axis=1)
    if k < V:
        tail = jax.nn.logsumexp(jnp.where(is_kept, -jnp.inf, scaled), axis=1, keepdims=True)
        logits = jnp.concatenate([logits, tail], axis=1)
        p = jnp.concatenate([p, jnp.maximum(1 - p.sum(1, keepdims=True), 1e-30)], axis=1)
    return optax.losses.kl_divergence(jax.nn.log_softmax(logits), p).mean() * temperature**2


def sequence_loss(student_logits, token_ids, is_written):
    log_q = jax.nn.log_softmax(student_logits)
    of_tokens = jnp.take_along_axis(jnp.roll(log_q, 1, axis=1), token_ids[..., None], axis=2)[..., 0]
    return -jnp.sum(of_tokens, where=is_written) / is_written.shape[0]


def on_policy_loss(student_logits, teacher_logits, is_written):
    teacher = jax.nn.log_softmax(lax.stop_gradient(teacher_logits), -1)
    student = jax.nn.log_softmax(student_logits, -1)
    each = optax.losses.kl_divergence_with_log_targets(teacher, student)[:, :-1]
    weights = is_written[:, 1:].astype(jnp.float32)
    return jnp.vdot(each, weights) / jnp.maximum(weights.sum(), 1.0)
