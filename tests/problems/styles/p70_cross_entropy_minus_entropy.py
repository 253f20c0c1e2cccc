"""The divergence is the cross-entropy minus the entropy; the rest is spread by `logaddexp`; one text at a time."""

import functools

import jax
import jax.numpy as jnp


def _entropy(p):
    return -jnp.sum(jnp.where(p > 0, p * jnp.log(jnp.where(p > 0, p, 1)), 0), axis=-1)


def token_loss(student_logits, teacher_logits, token_ids, is_target, temperature, soft_weight):
    p = jax.lax.stop_gradient(jax.nn.softmax(teacher_logits[:-1] / temperature, axis=-1))
    cross = -jnp.einsum("tv,tv->t", p, jax.nn.log_softmax(student_logits[:-1] / temperature, axis=-1))
    rows = jnp.arange(len(token_ids) - 1)
    hard = -jax.nn.log_softmax(student_logits)[rows, token_ids[1:]]
    both = soft_weight * (cross - _entropy(p)) * temperature * temperature + (1 - soft_weight) * hard
    n = jnp.sum(is_target[1:])
    return jnp.where(n > 0, jnp.sum(jnp.where(is_target[1:], both, 0.0)) / jnp.where(n > 0, n, 1), 0.0)


def top_k_targets(teacher_logits, k, temperature):
    ids = jnp.argsort(-teacher_logits, axis=-1, stable=True)[:, :k].astype(jnp.int32)
    scaled = teacher_logits / temperature
    kept = jnp.take_along_axis(scaled, ids, axis=-1)
    return ids, kept - jax.nn.logsumexp(scaled, axis=-1, keepdims=True)


def top_k_loss(student_logits, ids, log_p, temperature):
    log_p = jax.lax.stop_gradient(log_p)
    V = student_logits.shape[1]

    def row(logits, ids, log_p):
        log_q = jax.nn.log_softmax(logits / temperature)
        is_kept = jnp.zeros(V, bool).at[ids].set(True)
        p = jnp.exp(log_p)
        kl = p @ log_p - p @ log_q[ids]
        if len(ids) == V:
            return kl
        others = functools.reduce(jnp.logaddexp, [jnp.where(is_kept[v], -1e9, log_q[v]) for v in range(V)])
        rest = jnp.clip(1 - p.sum(), 0, 1)
        return kl - _entropy(rest[None]) - rest * others

    return jax.vmap(row)(student_logits, ids, log_p).mean() * temperature**2


def sequence_loss(student_logits, token_ids, is_written):
    def text(logits, ids, mask):
        log_q = jax.nn.log_softmax(logits[:-1])
        return -jnp.sum(jnp.where(mask[1:], jnp.take_along_axis(log_q, ids[1:, None], axis=1)[:, 0], 0))

    total = sum(text(*row) for row in zip(student_logits, token_ids, is_written, strict=True))
    return total / len(token_ids)


def on_policy_loss(student_logits, teacher_logits, is_written):
    q = jax.nn.softmax(student_logits[:, :-1])
    cross = -jnp.einsum("ntv,ntv->nt", q, jax.nn.log_softmax(jax.lax.stop_gradient(teacher_logits[:, :-1])))
    mask = is_written[:, 1:]
    return jnp.where(mask, cross - _entropy(q), 0.0).sum() / jnp.clip(mask.sum(), 1)
