"""Reinforcement learning by group-relative policy optimization (Shao et al. 2024, DeepSeekMath, section 4.1).

Several continuations of the same prompt form a group. A continuation is reinforced if its reward is above the mean of
its group. By default, tokens of all continuations have the same weight (Yu et al. 2025, DAPO), so long ones are not
favored.
"""

import functools
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from harness.config import Config
from harness.model.gpt import GPT
from harness.model.loss import scores, token_log_probabilities
from harness.training.train_step import LossSum, Recipe, interleaved, mean_gradients


class Rollouts(NamedTuple):
    """Sampled continuations, B rows of T targets, and what the loss needs to know about them."""

    ids_BW: Int[Array, "B W"]  # W = T + 1: the prompt, the continuation, then padding
    sampled_BT: Bool[Array, "B T"]  # the targets that the policy sampled, and that count
    old_BT: Float[Array, "B T"]  # their log-probabilities under the policy that sampled them
    base_BT: Float[Array, "B T"] | None  # and under the model that training started from, if the loss needs them
    advantages_B: Float[Array, "B"]
    sampler_BT: Float[Array, "B T"] | None = None  # as the program that sampled them computed them, if they weigh


def advantages(
    rewards_GK: Float[np.ndarray, "G K"], *, scaled: bool = True, sample: bool = False
) -> Float[np.ndarray, "G K"]:
    """Rewards of G groups of K continuations, centered within each group. A group of equal rewards has none.

    `scaled` divides them by the deviation of the group. Without it, groups of nearly equal rewards have small
    advantages (Liu et al. 2025, "Understanding R1-Zero-like training"). With `sample`, the deviation divides by K - 1,
    as in TRL and verl.
    """
    centered_GK = rewards_GK - rewards_GK.mean(axis=1, keepdims=True)
    deviation_G1 = rewards_GK.std(axis=1, keepdims=True, ddof=int(sample))
    differ_G1 = deviation_G1 > 1e-6
    divisor_G1 = deviation_G1 if scaled else np.ones_like(deviation_G1)
    return np.divide(centered_GK, divisor_G1, out=np.zeros_like(centered_GK), where=differ_G1)


def kl_estimate(log_policy: Array, log_base: Array) -> Array:
    """An estimate of the KL divergence from the base at each sampled token.

    It is unbiased and never negative (Schulman 2020, "Approximating KL divergence", k3).
    """
    difference = log_base - log_policy
    return jnp.exp(difference) - difference - 1


def log_probabilities(config: Config, model: Any, ids_BW: Int[Array, "B W"]) -> tuple[Array, Array]:
    """The log-probability of each target of `ids_BW` and the entropies, both `(B, T)`. Padding has arbitrary values."""
    targets_BT = ids_BW[:, 1:]
    if isinstance(model, GPT) and model.config.context == targets_BT.shape[1]:
        x_BTD = model.hidden(jnp.maximum(ids_BW[:, :-1], 0))
        return token_log_probabilities(x_BTD, targets_BT, model.output(), config.loss_chunk)
    return scores(jax.vmap(model)(ids_BW)[:, :-1], targets_BT)  # pieces see whole rows


def loss_sum(config: Config, model: Any, rollouts: Rollouts, key: Any) -> tuple[Array, Array, dict[str, Array]]:
    """The sum of the losses: minus the clipped gain, plus `kl_weight` times the KL divergence; and what it is divided
    by.

    With `loss_mean=token`, all sampled tokens have the same weight. With `sequence`, all continuations have, as in the
    paper: the losses of each are divided by its length. The last sum is that of the tokens whose gain is cut off by the
    clip.

    The ratio of a continuation is the geometric mean of those of its tokens (Zheng et al. 2025, GSPO). Bounds that
    differ are those of DAPO (Yu et al. 2025), and weights for the gap of sampler and trainer those of Yao et al. 2025.
    """
    del key  # no dropout: the ratio compares two runs of one function
    new_BT, _ = log_probabilities(config, model, rollouts.ids_BW)
    lengths_B1 = jnp.sum(rollouts.sampled_BT, axis=1, keepdims=True)
    moved_BT = jnp.where(rollouts.sampled_BT, new_BT - rollouts.old_BT, 0.0)
    ratio_BT = jnp.exp(moved_BT)
    if config.ratio == "sequence":
        mean_B1 = jnp.sum(moved_BT, axis=1, keepdims=True) / jnp.maximum(lengths_B1, 1)
        ratio_BT = jnp.broadcast_to(jnp.exp(mean_B1), moved_BT.shape)
    clipped_BT = jnp.clip(ratio_BT, 1 - config.clip_ratio, 1 + config.clip_above)
    advantages_B1 = rollouts.advantages_B[:, None]
    gain_BT = jnp.minimum(ratio_BT * advantages_B1, clipped_BT * advantages_B1)
    losses_BT = -_sampler_weights(config, rollouts, config.ratio) * gain_BT
    if rollouts.base_BT is not None:
        kl_BT = _sampler_weights(config, rollouts, "token") * kl_estimate(new_BT, rollouts.base_BT)
        losses_BT = config.kl_weight * (jnp.exp(moved_BT) * kl_BT if config.is_exact_kl else kl_BT) + losses_BT
    is_clipped_BT = clipped_BT * advantages_B1 < ratio_BT * advantages_B1
    count = jnp.sum(rollouts.sampled_BT)

    def total(values_BT: Array) -> Array:
        return jnp.sum(jnp.where(rollouts.sampled_BT, values_BT, 0.0))

    if config.loss_mean == "sequence":
        weights_B1 = 1 / jnp.maximum(lengths_B1, 1).astype(jnp.float32)
        losses_BT, is_clipped_BT = losses_BT * weights_B1, is_clipped_BT * weights_B1
        count = jnp.sum(lengths_B1 > 0)
    return total(losses_BT), count, {"clip_fraction": total(is_clipped_BT.astype(jnp.float32))}


def _sampler_weights(config: Config, rollouts: Rollouts, of: str) -> Array:
    """How much more likely a token is to the trainer than to the program that sampled it, and at most `max_weight`; 1
    if nobody knows.

    With `of="sequence"`, that of the whole continuation.
    """
    if rollouts.sampler_BT is None:
        return jnp.float32(1)
    gap_BT = jnp.where(rollouts.sampled_BT, rollouts.old_BT - rollouts.sampler_BT, 0.0)
    if of == "sequence":
        gap_BT = jnp.broadcast_to(jnp.sum(gap_BT, axis=1, keepdims=True), gap_BT.shape)
    return jax.lax.stop_gradient(jnp.minimum(jnp.exp(gap_BT), config.max_weight))


def penalized(
    rewards_B: Float[np.ndarray, "B"],
    old_BT: Float[np.ndarray, "B T"],
    base_BT: Float[np.ndarray, "B T"],
    sampled_BT: Bool[np.ndarray, "B T"],
    kl_weight: float,
) -> Float[np.ndarray, "B"]:
    """Rewards minus `kl_weight` times the log-probability that a continuation has gained over the base."""
    return rewards_B - kl_weight * np.sum(np.where(sampled_BT, old_BT - base_BT, 0.0), axis=1)


def reinforced(config: Config, recipe: Recipe, rollout_loss: LossSum | None = None) -> Recipe:
    """The recipe with this loss, or with `rollout_loss`: both are computed from `Rollouts`. Validation keeps its
    own."""
    gradients = functools.partial(mean_gradients, microbatches=config.grad_accumulation_steps, trained=recipe.trained)
    return replace(
        recipe,
        loss_sum=rollout_loss or functools.partial(loss_sum, config),
        gradients=gradients,
        updates=config.rollout_updates,
        train_step=None,
    )


@functools.lru_cache(maxsize=2)
def scorer(config: Config, graph: Any) -> Any:
    """A jitted function of a policy's parameters, of those that its base has in their place, and of rows.

    Returns the log-probabilities under both, and the entropies of the policy. Without a base (None), there are none of
    it. Takes as many parts of the rows in sequence as the updates do, with the memory of one.
    """
    parts = config.rollout_updates * config.grad_accumulation_steps

    @jax.jit
    def score(policy: Any, base: Any, ids_BW: Array) -> tuple[Array, Array | None, Array]:
        def score_part(ids_BW: Array) -> tuple[Array, Array | None, Array]:
            new_BT, entropies_BT = log_probabilities(config, nnx.merge(graph, policy), ids_BW)
            if base is None:
                return new_BT, None, entropies_BT
            base_BT, _ = log_probabilities(config, nnx.merge(graph, nnx.merge_state(policy, base)), ids_BW)
            return new_BT, base_BT, entropies_BT

        if parts == 1:
            return score_part(ids_BW)
        scored = jax.lax.map(score_part, interleaved(ids_BW, parts))
        return jax.tree.map(lambda each: jnp.moveaxis(each, 0, 1).reshape(len(ids_BW), -1), scored)

    return score
