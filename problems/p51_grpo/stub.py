"""Problem 51: group-relative policy optimization. The page is in pages/p51_grpo.md."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def group_advantages(rewards: Float[Array, "P C"]) -> Float[Array, "P C"]:
    """The rewards of C continuations of each of P prompts, normalized within each
    group. All 0 where they are equal."""
    raise NotImplementedError


def grpo_loss(
    new: Float[Array, "B T"],
    old: Float[Array, "B T"],
    base: Float[Array, "B T"],
    sampled: Bool[Array, "B T"],
    advantages: Float[Array, "B"],
    clip_ratio: float,
    kl_weight: float,
) -> Float[Array, ""]:
    """The loss of one batch of sampled tokens: `kl_weight` times the KL estimate
    k3, minus the clipped gain.

    new, old, base: (B, T). Log-probabilities of the tokens under the policy in
    training, the one that sampled them, and the one that training started from.
    sampled: (B, T). False for the prompt and the padding, where the other arrays hold
    arbitrary numbers. advantages: (B,). One for each continuation.
    """
    raise NotImplementedError
