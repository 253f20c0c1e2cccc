"""Problem 79: a policy that learns with a lag.

The page is in pages/p79_policy_with_lag.md.
"""

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
    """The probability under the trainer divided by that under the sampler, at most
    `max_weight`: a constant.

    old, sampler: (B, T). Log-probabilities of the tokens when they were sampled, by the
    program that trains and by the one that drew them. sampled: (B, T). False for the
    prompt and the padding: the weight is 0 there. kind: "token", or "sequence" for the
    probabilities of the whole continuation, whose tokens then have the same weight.
    """
    raise NotImplementedError


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
    """Minus the mean of weight times clipped gain: over all sampled tokens, or over the
    continuations that have any.

    new: (B, T). Log-probabilities of the tokens now: all else is constant. kind:
    "token" for a ratio of each token, "sequence" for one of each continuation, by
    the mean of the log-ratios of its tokens. The ratio is clipped to 1 -
    `clip_low` and 1 + `clip_high`.
    """
    raise NotImplementedError


def kl_loss(
    new: Float[Array, "B T"],
    old: Float[Array, "B T"],
    sampler: Float[Array, "B T"],
    base: Float[Array, "B T"],
    sampled: Bool[Array, "B T"],
    max_weight: float,
) -> Float[Array, ""]:
    """The mean over all sampled tokens of weight times ratio times k3, with
    weights and ratios of tokens.

    base: (B, T). Log-probabilities under the policy that training started from.
    """
    raise NotImplementedError


def penalized_rewards(
    rewards: Float[Array, "B"],
    old: Float[Array, "B T"],
    base: Float[Array, "B T"],
    sampled: Bool[Array, "B T"],
    kl_weight: float,
) -> Float[Array, "B"]:
    """The rewards minus `kl_weight` times the log-ratio of trainer and base of
    each whole continuation."""
    raise NotImplementedError
