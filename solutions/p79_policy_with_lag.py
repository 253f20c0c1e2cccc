"""Problem 79, reference: a policy that learns from the samples of another program, and of an earlier self."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def sampler_weights(
    old: Float[Array, "B T"],
    sampler: Float[Array, "B T"],
    sampled: Bool[Array, "B T"],
    kind: str,
    max_weight: float,
) -> Float[Array, "B T"]:
    """Truncated importance weights (Ionides 2008; Yao et al. 2025), of tokens or of whole continuations."""
    gap = jnp.where(sampled, old - sampler, 0.0)
    if kind == "sequence":
        gap = jnp.sum(gap, axis=1, keepdims=True)
    weights = jnp.minimum(jnp.exp(gap), max_weight)
    return jax.lax.stop_gradient(jnp.where(sampled, weights, 0.0))


def policy_loss(
    new: Float[Array, "B T"],
    old: Float[Array, "B T"],
    sampler: Float[Array, "B T"],
    sampled: Bool[Array, "B T"],
    advantages: Float[Array, "B"],
    kind: str,
    clip_low: float,
    clip_high: float,
    max_weight: float,
) -> Float[Array, ""]:
    """Minus the clipped gain, with the bounds of DAPO (Yu et al. 2025), times the weight of the sampler's gap.

    The ratio is that of a token, or that of a continuation by the geometric mean (GSPO, Zheng et al. 2025). The mean is
    over all sampled tokens, or over all continuations that have one.
    """
    moved = jnp.where(sampled, new - jax.lax.stop_gradient(old), 0.0)
    lengths = jnp.sum(sampled, axis=1, keepdims=True)
    if kind == "sequence":
        moved = jnp.sum(moved, axis=1, keepdims=True) / jnp.maximum(lengths, 1)
    ratio = jnp.exp(moved)
    clipped = jnp.clip(ratio, 1 - clip_low, 1 + clip_high)
    gain = jnp.minimum(ratio * advantages[:, None], clipped * advantages[:, None])
    losses = -sampler_weights(old, sampler, sampled, kind, max_weight) * gain
    if kind == "sequence":
        return jnp.sum(losses / jnp.maximum(lengths, 1)) / jnp.maximum(jnp.sum(lengths > 0), 1)
    return jnp.sum(losses) / jnp.maximum(jnp.sum(lengths), 1)


def kl_loss(
    new: Float[Array, "B T"],
    old: Float[Array, "B T"],
    sampler: Float[Array, "B T"],
    base: Float[Array, "B T"],
    sampled: Bool[Array, "B T"],
    max_weight: float,
) -> Float[Array, ""]:
    """The estimate k3 times the ratio (DeepSeek-AI 2025, DeepSeek-V3.2), so that its gradient is that of
    KL(policy‖base)."""
    ratio = jnp.exp(jnp.where(sampled, new - jax.lax.stop_gradient(old), 0.0))
    difference = jnp.where(sampled, base - new, 0.0)
    kl = ratio * (jnp.exp(difference) - difference - 1)
    weights = sampler_weights(old, sampler, sampled, "token", max_weight)
    return jnp.sum(weights * kl) / jnp.maximum(jnp.sum(sampled), 1)


def penalized_rewards(
    rewards: Float[Array, "B"],
    old: Float[Array, "B T"],
    base: Float[Array, "B T"],
    sampled: Bool[Array, "B T"],
    kl_weight: float,
) -> Float[Array, "B"]:
    """Rewards minus `kl_weight` times the estimate k1 of the whole continuation: a number, not a part of the loss."""
    return rewards - kl_weight * jnp.sum(jnp.where(sampled, old - base, 0.0), axis=1)
