"""Rewards in NumPy where they can be, a cap on the logarithm, and means that take `where` and `weights`."""

import jax
import jax.numpy as jnp
import numpy as np


def _logs(sampled, *arrays):
    return [jnp.where(sampled, array, -1.0) for array in arrays]


def sampler_weights(old, sampler, sampled, kind, max_weight):
    p, q = jax.lax.stop_gradient(_logs(sampled, old, sampler))
    if kind == "sequence":
        p, q = p.sum(axis=1, keepdims=True), q.sum(axis=1, keepdims=True)
    return jnp.exp(jnp.minimum(p - q, np.log(max_weight))) * sampled.astype("float32")


def policy_loss(new, old, sampler, sampled, advantages, kind, clip_low, clip_high, max_weight):
    now, before = _logs(sampled, new, old)
    before = jax.lax.stop_gradient(before)
    weights = sampler_weights(old, sampler, sampled, kind, max_weight)
    A = advantages[:, None]
    if kind == "sequence":
        weights = weights.max(axis=1, keepdims=True)
        counted = sampled.any(axis=1, keepdims=True)
        safe = sampled | ~counted
        r = jnp.exp(jnp.mean(now - before, axis=1, keepdims=True, where=safe))
    else:
        counted = sampled
        r = jnp.exp(now) / jnp.exp(before)
    stopped = ((A > 0) & (r > 1 + clip_high)) | ((A < 0) & (r < 1 - clip_low))
    limit = jnp.where(A > 0, 1 + clip_high, 1 - clip_low)
    gain = weights * jnp.where(stopped, limit, r) * A
    return _mean(-gain, counted)


def _mean(values, counted):
    return jnp.where(counted, values, 0.0).sum() / jnp.where(counted.any(), counted.sum(), 1)


def kl_loss(new, old, sampler, base, sampled, max_weight):
    now, before, first = _logs(sampled, new, old, base)
    k3 = jnp.expm1(first - now) + now - first
    w = sampler_weights(old, sampler, sampled, "token", max_weight)
    return _mean(w * jnp.exp(now - jax.lax.stop_gradient(before)) * k3, sampled)


def penalized_rewards(rewards, old, base, sampled, kl_weight):
    return rewards - kl_weight * ((old - base) * sampled).sum(axis=1)
