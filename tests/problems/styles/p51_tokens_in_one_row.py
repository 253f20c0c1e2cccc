"""Losses are the maximum of two, over all tokens in one row; advantages are a z-score with a safe divisor."""

import jax
import jax.numpy as jnp


def group_advantages(rewards):
    def one(row):
        centered = row - row.mean()
        spread = jnp.sqrt((centered**2).mean())
        safe = jnp.where(spread < 1e-6, 1.0, spread)
        return jnp.where(spread < 1e-6, jnp.zeros_like(row), centered / safe)

    return jax.vmap(one)(rewards)


def grpo_loss(new, old, base, sampled, advantages, clip_ratio, kl_weight):
    mask = sampled.reshape(-1)
    adv = jnp.repeat(advantages, new.shape[1])
    safe = [jnp.where(mask, x.reshape(-1), -1.0) for x in (new, old, base)]
    ratio = jnp.exp(safe[0]) / jnp.exp(safe[1])
    pg = jnp.maximum(-adv * ratio, -adv * jnp.clip(ratio, 1 - clip_ratio, 1 + clip_ratio))
    log_r = safe[2] - safe[0]
    kl = jnp.expm1(log_r) - log_r
    return jnp.where(mask, pg + kl_weight * kl, 0.0).sum() / (mask.sum() + 1e-9)
