"""Direct preference optimization (Rafailov et al. 2023): a chosen answer becomes more likely than a rejected one.

The reward of an answer is `dpo_beta` times how much its log-probability has grown since the base. The loss of a pair is
minus the log-probability that the chosen answer wins, by the difference of the rewards.
"""

import functools
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from harness.config import Config
from harness.training.grpo import log_probabilities
from harness.training.train_step import LossSum, Recipe, mean_gradients, token_ids


class Pairs(NamedTuple):
    """B pairs of rows, the chosen answer first, and what the base says of them."""

    ids_BPW: Int[Array, "B 2 W"]  # W = T + 1; only targets that are ids count
    base: Float[Array, "B 2"] | Float[Array, "B 2 W V"]  # log-probabilities of the answers, or a piece's logits


def answers(config: Config, model: Any, ids_BPW: Int[Array, "B 2 W"]) -> Float[Array, "B 2"]:
    """The log-probability of each answer, or with `dpo_length_normalized` its mean over the tokens."""
    B, _, W = ids_BPW.shape
    log_RT, _ = log_probabilities(config, model, token_ids(ids_BPW.reshape(2 * B, W)))
    is_target_BPT = ids_BPW[:, :, 1:] >= 0
    log_BP = jnp.sum(jnp.where(is_target_BPT, log_RT.reshape(B, 2, W - 1), 0.0), axis=2)
    return log_BP / jnp.maximum(is_target_BPT.sum(axis=2), 1) if config.dpo_length_normalized else log_BP


def loss_sum(config: Config, model: Any, pairs: Pairs, key: Any) -> tuple[Array, Array, dict[str, Array]]:
    """The sum of the losses of all pairs, their number, and sums of what else is measured. Padding counts nothing.

    With `dpo_label_smoothing`, a pair is taken for the wrong way round with that probability (Mitchell 2023).
    """
    del key  # no dropout: the rewards compare two runs of one function
    rewards_BP = config.dpo_beta * (answers(config, model, pairs.ids_BPW) - pairs.base)
    margins_B = rewards_BP[:, 0] - rewards_BP[:, 1]
    wrong = config.dpo_label_smoothing
    losses_B = -(1 - wrong) * jax.nn.log_sigmoid(margins_B) - wrong * jax.nn.log_sigmoid(-margins_B)
    is_pair_B = is_pair(pairs)
    return jnp.sum(losses_B * is_pair_B), jnp.sum(is_pair_B), measured(rewards_BP, is_pair_B)


def is_pair(pairs: Pairs) -> Array:
    """Whether each pair is one, and not padding."""
    return jnp.any(pairs.ids_BPW[:, 0] >= 0, axis=1)


def measured(rewards_BP: Float[Array, "B 2"], is_pair_B: Array) -> dict[str, Array]:
    """Sums of the rewards, of their difference, and of the pairs in which the chosen answer has the larger one."""
    margins_B = rewards_BP[:, 0] - rewards_BP[:, 1]
    values = {
        "chosen_reward": rewards_BP[:, 0],
        "rejected_reward": rewards_BP[:, 1],
        "margin": margins_B,
        "accuracy": (margins_B > 0).astype(jnp.float32),
    }
    return {name: jnp.sum(each_B * is_pair_B) for name, each_B in values.items()}


def preferring(config: Config, recipe: Recipe, pair_loss: LossSum | None = None) -> Recipe:
    """The recipe with this loss, or with `pair_loss`, also for validation. Both are computed from `Pairs`."""
    loss = pair_loss or functools.partial(loss_sum, config)
    gradients = functools.partial(mean_gradients, microbatches=config.grad_accumulation_steps, trained=recipe.trained)
    return replace(recipe, loss_sum=loss, validation_loss_sum=loss, gradients=gradients, train_step=None)


@functools.lru_cache(maxsize=2)
def base_scorer(config: Config, graph: Any, *, logits: bool) -> Any:
    """A jitted function of a policy's parameters, of those that its base has in their place, and of pairs of rows.

    Returns what the base says of the answers: their log-probabilities, or with `logits` all logits, as a piece takes
    them.
    """

    @jax.jit
    def score(policy: Any, base: Any, ids_BPW: Array) -> Array:
        model = nnx.merge(graph, nnx.merge_state(policy, base))
        return all_logits(model, ids_BPW) if logits else answers(config, model, ids_BPW)

    return score


def all_logits(model: Any, ids_BPW: Int[Array, "B 2 W"]) -> Float[Array, "B 2 W V"]:
    """The logits after each token of both rows of each pair."""
    return jax.vmap(lambda rows_PW: jax.vmap(model)(token_ids(rows_PW)))(ids_BPW)
