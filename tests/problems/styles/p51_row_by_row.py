"""Advantages in NumPy, which cannot be traced. Sums and counts of each row, clipped by cases of the sign of the
advantage."""

import jax
import jax.numpy as jnp
import numpy as np


def group_advantages(rewards):
    rows = []
    for row in np.asarray(rewards):
        spread = np.std(row)
        rows.append((row - np.mean(row)) / spread if spread >= 1e-6 else np.zeros_like(row))
    return np.stack(rows)


def grpo_loss(new, old, base, sampled, advantages, clip_ratio, kl_weight):
    def row(new, old, base, sampled, advantage):
        old, base = jnp.where(sampled, old, new), jnp.where(sampled, base, new)
        ratio = jnp.exp(new - old)
        up = advantage * jnp.minimum(ratio, 1 + clip_ratio)
        down = advantage * jnp.maximum(ratio, 1 - clip_ratio)
        kl = jnp.exp(base - new) - (base - new) - 1
        return jnp.sum((kl_weight * kl - jnp.where(advantage >= 0, up, down)) * sampled), jnp.sum(sampled)

    sums, counts = jax.vmap(row)(new, old, base, sampled, advantages)
    return sums.sum() / jnp.clip(counts.sum(), 1)
