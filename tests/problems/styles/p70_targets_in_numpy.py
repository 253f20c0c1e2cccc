"""Row by row: targets chosen by NumPy, which cannot be traced; the other tokens are what boolean indexing leaves."""

import jax
import jax.numpy as jnp
import numpy as np


def token_loss(student_logits, teacher_logits, token_ids, is_target, temperature, soft_weight):
    total, targets = jnp.float32(0), np.flatnonzero(np.asarray(is_target))
    for t in targets:
        p = jax.lax.stop_gradient(jax.nn.softmax(teacher_logits[t - 1] / temperature))
        log_p = jax.lax.stop_gradient(jax.nn.log_softmax(teacher_logits[t - 1] / temperature))
        soft = jnp.sum(p * (log_p - jax.nn.log_softmax(student_logits[t - 1] / temperature)))
        hard = -jax.nn.log_softmax(student_logits[t - 1])[token_ids[t]]
        total += soft_weight * temperature**2 * soft + (1 - soft_weight) * hard
    return total / max(len(targets), 1)


def top_k_targets(teacher_logits, k, temperature):
    log_p = jax.nn.log_softmax(teacher_logits / temperature)
    order = np.argsort(-np.asarray(teacher_logits), axis=1, kind="stable")[:, :k].astype(np.int32)
    return order, np.take_along_axis(np.asarray(log_p), order, 1)


def top_k_loss(student_logits, ids, log_p, temperature):
    ids, p = np.asarray(ids), jnp.exp(jax.lax.stop_gradient(log_p))
    total = 0.0
    for t, row in enumerate(ids):
        log_q = jax.nn.log_softmax(student_logits[t] / temperature)
        total += jnp.sum(p[t] * (jnp.log(p[t]) - log_q[row]))
        others = np.setdiff1d(np.arange(len(log_q)), row)
        rest = 1 - p[t].sum()
        if rest > 0 and len(others):
            total += rest * (jnp.log(rest) - jax.nn.logsumexp(log_q[others]))
    return temperature**2 * total / len(ids)


def sequence_loss(student_logits, token_ids, is_written):
    log_q = jax.nn.log_softmax(student_logits)
    n, t = np.nonzero(np.asarray(is_written))
    return -jnp.sum(log_q[n, t - 1, token_ids[n, t]]) / len(token_ids)


def on_policy_loss(student_logits, teacher_logits, is_written):
    n, t = np.nonzero(np.asarray(is_written))
    if not len(n):
        return 0.0 * jnp.sum(student_logits)
    log_q = jax.nn.log_softmax(student_logits[n, t - 1])
    log_p = jax.nn.log_softmax(jax.lax.stop_gradient(teacher_logits)[n, t - 1])
    return jnp.mean(jnp.sum(jnp.exp(log_q) * (log_q - log_p), axis=1))
