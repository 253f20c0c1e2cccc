"""Problem 51, reference: group-relative policy optimization."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

TINY = 1e-6  # a smaller deviation is a rounding error: the rewards of the group are equal


def group_advantages(rewards: Float[Array, "P C"]) -> Float[Array, "P C"]:
    """Rewards normalized within each group (Shao et al. 2024, section 4.1.2); 0 in groups of equal rewards."""
    centered = rewards - jnp.mean(rewards, axis=1, keepdims=True)
    deviation = jnp.std(rewards, axis=1, keepdims=True)
    return jnp.where(deviation > TINY, centered / jnp.maximum(deviation, TINY), 0.0)


def grpo_loss(
    new: Float[Array, "B T"],
    old: Float[Array, "B T"],
    base: Float[Array, "B T"],
    sampled: Bool[Array, "B T"],
    advantages: Float[Array, "B"],
    clip_ratio: float,
    kl_weight: float,
) -> Float[Array, ""]:
    """Minus the clipped gain (Schulman et al. 2017, equation 7) plus `kl_weight` times k3 (Schulman 2020).

    The mean is over all sampled tokens (Yu et al. 2025, DAPO), so no continuation counts more per token than another.
    It is 0 if there is none.
    """
    ratio = jnp.exp(jnp.where(sampled, new - old, 0.0))
    clipped = jnp.clip(ratio, 1 - clip_ratio, 1 + clip_ratio)
    gain = jnp.minimum(ratio * advantages[:, None], clipped * advantages[:, None])
    difference = jnp.where(sampled, base - new, 0.0)
    kl = jnp.exp(difference) - difference - 1
    losses = kl_weight * kl - gain
    return jnp.sum(losses * sampled) / jnp.maximum(jnp.sum(sampled), 1)
