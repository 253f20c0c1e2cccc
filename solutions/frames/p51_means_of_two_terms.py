"""Separate means of the gain and of the KL estimate, by weights that sum to 1 if any token is sampled."""

import jax
import jax.numpy as jnp


def group_advantages(rewards):
    mean, std = jnp.mean(rewards, 1), jnp.std(rewards, 1)
    scale = jnp.where(std > 1e-6, 1 / jnp.clip(std, 1e-6), 0)
    return jnp.einsum("pc,p->pc", rewards - mean[:, None], scale)


def grpo_loss(new, old, base, sampled, advantages, clip_ratio, kl_weight):
    new = jnp.where(sampled, new, 0.0)
    old, base = (jax.lax.stop_gradient(jnp.where(sampled, x, 0.0)) for x in (old, base))
    ratio = jnp.exp(new - old)
    A = jnp.broadcast_to(advantages[:, None], new.shape)
    stopped = ((A > 0) & (ratio > 1 + clip_ratio)) | ((A < 0) & (ratio < 1 - clip_ratio))
    limit = jnp.where(A > 0, 1 + clip_ratio, 1 - clip_ratio)
    weights = sampled / jnp.where(sampled.any(), sampled.sum(), 1)
    gain = jnp.vdot(weights, jnp.where(stopped, limit, ratio) * A)
    kl = jnp.vdot(weights, jnp.exp(base) / jnp.exp(new) - (base - new) - 1)
    return kl_weight * kl - gain
