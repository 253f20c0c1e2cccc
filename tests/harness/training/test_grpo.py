"""The loss of reinforcement learning, against its definition in NumPy."""

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.config import Config
from harness.model.gpt import GPT
from harness.training.grpo import Rollouts, advantages, kl_estimate, log_probabilities, loss_sum, reinforced, scorer
from harness.training.train_step import default_recipe, make_step_functions
from tests.harness.conftest import TINY

CONFIG = replace(
    TINY, base="pocket", reward="ends", prompts=2, group_size=2, batch_size=4, prompt_tokens=3, vocab_size=97,
    loss_chunk=12,
)  # fmt: skip


def test_advantages_are_normalized_in_each_group() -> None:
    rewards = np.array([[0.0, 1.0, 1.0, 0.0], [5.0, 5.0, 5.0, 9.0]])
    own = advantages(rewards)
    np.testing.assert_allclose(own.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(own.std(axis=1), 1)
    np.testing.assert_array_equal(own[0], [-1, 1, 1, -1])


def test_advantages_may_be_divided_by_the_sample_deviation() -> None:
    np.testing.assert_allclose(
        advantages(np.array([[0.0, 1.0, 5.0]]), sample=True), [[-2 / 7**0.5, -1 / 7**0.5, 3 / 7**0.5]]
    )
    np.testing.assert_allclose(advantages(np.array([[0.0, 1.0]]), sample=True), [[-(0.5**0.5), 0.5**0.5]])


def test_advantages_need_not_be_scaled() -> None:
    rewards = np.array([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0], [2.0, 2.0, 2.0, 2.0]])
    np.testing.assert_allclose(advantages(rewards, scaled=False), rewards - rewards.mean(axis=1, keepdims=True))


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1])  # 0.1 has a mean that is not 0.1 exactly
def test_equal_rewards_have_no_advantage(reward: float) -> None:
    np.testing.assert_array_equal(advantages(np.full((2, 3), reward)), np.zeros((2, 3)))


def test_the_kl_estimate_is_unbiased_and_never_negative() -> None:
    policy, base = (jax.nn.log_softmax(jax.random.normal(jax.random.key(seed), (50,))) for seed in (1, 2))
    estimates = kl_estimate(policy, base)
    assert (estimates >= 0).all()
    expected = jnp.sum(jnp.exp(policy) * (policy - base))
    np.testing.assert_allclose(jnp.sum(jnp.exp(policy) * estimates), expected, rtol=1e-5)


@nnx.jit  # operation by operation, these would be dozens of programs
def log_probabilities_of(model: Any, ids_BW: jax.Array) -> Any:
    return log_probabilities(CONFIG, model, ids_BW)


@functools.partial(nnx.jit, static_argnums=0)
def loss_of(config: Config, model: Any, batch: Rollouts) -> Any:
    return loss_sum(config, model, batch, None)


def rollouts(model: Any, seed: int = 0) -> Rollouts:
    """Random rows with a padded end, and log-probabilities of other policies near that of the model."""
    rng = np.random.default_rng(seed)
    ids_BW = rng.integers(0, 97, (4, 17)).astype(np.int32)
    ids_BW[1, 12:] = -1
    sampled_BT = np.broadcast_to(np.arange(1, 17) >= 3, (4, 16)) & (ids_BW[:, 1:] >= 0)
    exact_BT, _ = log_probabilities_of(model, jnp.asarray(ids_BW))
    old_BT, base_BT = (exact_BT + jnp.float32(rng.normal(0, 0.3, (4, 16))) for _ in range(2))
    return Rollouts(jnp.asarray(ids_BW), jnp.asarray(sampled_BT), old_BT, base_BT, jnp.array([1.0, -1.0, 0.5, -0.5]))


@pytest.mark.parametrize(("mean", "kl_weight"), [("token", 0.1), ("sequence", 0.1), ("token", 0.0)])
def test_the_loss_is_that_of_its_definition(mean: Any, kl_weight: float) -> None:
    model = GPT(CONFIG.model, nnx.Rngs(0))
    batch = rollouts(model)
    config = replace(CONFIG, loss_mean=mean, kl_weight=kl_weight)
    if not kl_weight:
        batch = batch._replace(base_BT=None)
    loss, count, more = loss_of(config, model, batch)
    logits = np.float64(model(jnp.maximum(batch.ids_BW[:, :-1], 0)))
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = clipped = 0.0
    sampled = np.argwhere(np.asarray(batch.sampled_BT))
    lengths = np.bincount(sampled[:, 0], minlength=4)
    for row, column in sampled:
        new = logs[row, column, int(batch.ids_BW[row, column + 1])]
        ratio, advantage = np.exp(new - float(batch.old_BT[row, column])), float(batch.advantages_B[row])
        gain = min(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
        weight = 1.0 if mean == "token" else 1 / lengths[row]
        if kl_weight:
            difference = float(batch.base_BT[row, column]) - new
            expected += weight * kl_weight * (np.exp(difference) - difference - 1)
        expected -= weight * gain
        clipped += weight * (gain < ratio * advantage)
    assert int(count) == (len(sampled) if mean == "token" else 4)
    assert 0 < clipped < int(count)
    np.testing.assert_allclose(float(more["clip_fraction"]), clipped, rtol=1e-5)
    np.testing.assert_allclose(float(loss), expected, rtol=1e-4)  # sums of about 50 terms in float32


def test_a_row_that_does_not_count_changes_nothing() -> None:
    model = GPT(CONFIG.model, nnx.Rngs(0))
    batch = rollouts(model)
    left_out = batch._replace(sampled_BT=batch.sampled_BT.at[0].set(False))
    others = Rollouts(*(leaf if leaf is None else leaf[1:] for leaf in batch))
    for mean in ("token", "sequence"):
        config = replace(CONFIG, loss_mean=mean)
        for a, b in zip(loss_of(config, model, left_out)[:2], loss_of(config, model, others)[:2], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_several_updates_of_one_batch_are_those_of_its_parts() -> None:
    config = replace(CONFIG, rollout_updates=2, learning_rate=0.01, warmup_steps=0, num_layers=0)  # quicker to compile
    mesh = jax.make_mesh(
        (1, 1), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2, devices=jax.devices()[:1]
    )
    with jax.set_mesh(mesh):
        both, one = (
            make_step_functions(each, mesh, reinforced(each, default_recipe(each)))
            for each in (config, replace(config, rollout_updates=1))
        )
        start = one.init()
        batch = rollouts(one.model(start))
        state, metrics = both.train_step(jax.tree.map(jnp.copy, start), batch)
        first, first_metrics = one.train_step(start, jax.tree.map(lambda leaf: leaf[0::2], batch))
        second, second_metrics = one.train_step(first, jax.tree.map(lambda leaf: leaf[1::2], batch))
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(second), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(metrics.loss, (first_metrics.loss + second_metrics.loss) / 2, rtol=1e-4)
    assert int(nnx.merge(both.graph, state)[1].step[...]) == 2


def test_the_first_gradient_is_the_policy_gradient() -> None:
    model = GPT(CONFIG.model, nnx.Rngs(0))
    batch = rollouts(model)
    exact_BT, _ = log_probabilities_of(model, batch.ids_BW)
    batch = batch._replace(old_BT=exact_BT, base_BT=exact_BT)  # on-policy, and the divergence is at its minimum
    graph, parameters = nnx.split(model)

    def weighted(parameters: Any) -> jax.Array:
        logs_BT, _ = log_probabilities(CONFIG, nnx.merge(graph, parameters), batch.ids_BW)
        return -jnp.sum(jnp.where(batch.sampled_BT, logs_BT * batch.advantages_B[:, None], 0.0))

    own = jax.jit(jax.grad(lambda p: loss_sum(CONFIG, nnx.merge(graph, p), batch, None)[0]))(parameters)
    for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(jax.jit(jax.grad(weighted))(parameters)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_rollouts_are_scored_in_parts_as_at_once() -> None:
    graph, policy = nnx.split(GPT(CONFIG.model, nnx.Rngs(0)))
    base = nnx.state(GPT(CONFIG.model, nnx.Rngs(1)), nnx.Param)
    ids_BW = jax.random.randint(jax.random.key(0), (4, 17), 0, 97)
    new_BT, base_BT, entropies_BT = scorer(replace(CONFIG, rollout_updates=2), graph)(policy, base, ids_BW)
    expected_BT, expected_entropies_BT = log_probabilities(CONFIG, nnx.merge(graph, policy), ids_BW)
    expected_base_BT, _ = log_probabilities(CONFIG, nnx.merge(graph, base), ids_BW)
    np.testing.assert_allclose(new_BT, expected_BT, rtol=1e-4)
    np.testing.assert_allclose(base_BT, expected_base_BT, rtol=1e-4)
    np.testing.assert_allclose(entropies_BT, expected_entropies_BT, rtol=1e-4)


@pytest.mark.parametrize("chunk", [1, 12, 4096])
def test_log_probabilities_and_entropies_in_chunks(chunk: int) -> None:
    model = GPT(replace(CONFIG, head_bias=True, tied_head=False).model, nnx.Rngs(0))
    ids_BW = jax.random.randint(jax.random.key(0), (4, 17), 0, 97)
    own = log_probabilities(replace(CONFIG, loss_chunk=chunk), model, ids_BW)
    logs_BTV = jax.nn.log_softmax(model(ids_BW[:, :-1]))
    chosen_BT1 = jnp.take_along_axis(logs_BTV, ids_BW[:, 1:, None], axis=-1)
    np.testing.assert_allclose(own[0], chosen_BT1[..., 0], rtol=1e-4)
    np.testing.assert_allclose(own[1], -jnp.sum(jnp.exp(logs_BTV) * logs_BTV, axis=-1), rtol=1e-4)
