"""The loss of pairs of answers, against NumPy in float64, and what its settings change."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.config import Config
from harness.data.batches import PADDING, UNLEARNED
from harness.model.gpt import GPT
from harness.training.dpo import Pairs, answers, loss_sum
from tests.harness.conftest import TINY

CONFIG = replace(TINY, vocab_size=50, dpo_beta=0.3)


def rows() -> np.ndarray:
    """Three pairs and one of padding: a prompt that is not learned, answers of several lengths."""
    rng = np.random.default_rng(0)
    rows_BPW = np.full((4, 2, CONFIG.context + 1), PADDING, np.int32)
    for index, lengths in enumerate([(9, 5), (16, 17), (6, 6)]):
        for row, length in zip(rows_BPW[index], lengths, strict=True):
            row[:length] = rng.integers(0, 50, length)
            row[:4] = UNLEARNED - row[:4]
    return rows_BPW


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def by_hand(model: GPT, rows_BPW: np.ndarray, *, mean: bool) -> np.ndarray:
    """The log-probabilities of the answers, (B, 2)."""
    found = np.zeros(rows_BPW.shape[:2])
    for place in np.ndindex(*found.shape):
        row = rows_BPW[place]
        ids = np.where(row <= UNLEARNED, UNLEARNED - row, np.maximum(row, 0))
        logs = log_softmax(np.asarray(model(jnp.asarray(ids[:-1])), np.float64))
        each = [logs[t, row[t + 1]] for t in range(len(row) - 1) if row[t + 1] >= 0]
        found[place] = np.sum(each) / (max(len(each), 1) if mean else 1)
    return found


@pytest.mark.parametrize("settings", [{}, {"dpo_label_smoothing": 0.2}, {"dpo_length_normalized": True}])
def test_the_loss_is_that_of_numpy(settings: dict[str, Any], one_device: None) -> None:
    config: Config = replace(CONFIG, **settings)
    policy, base = (GPT(config.model, nnx.Rngs(seed)) for seed in (0, 1))
    rows_BPW, mean = rows(), config.dpo_length_normalized
    said = answers(config, base, jnp.asarray(rows_BPW))
    np.testing.assert_allclose(said, by_hand(base, rows_BPW, mean=mean), rtol=1e-5)
    loss, count, sums = loss_sum(config, policy, Pairs(jnp.asarray(rows_BPW), said), None)
    rewards = 0.3 * (by_hand(policy, rows_BPW, mean=mean) - by_hand(base, rows_BPW, mean=mean))[:3]
    margins, wrong = rewards[:, 0] - rewards[:, 1], config.dpo_label_smoothing
    expected = np.sum((1 - wrong) * np.log1p(np.exp(-margins)) + wrong * np.log1p(np.exp(margins)))
    assert int(count) == 3
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    np.testing.assert_allclose(sums["chosen_reward"], rewards[:, 0].sum(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(sums["rejected_reward"], rewards[:, 1].sum(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(sums["margin"], margins.sum(), rtol=1e-3, atol=1e-4)
    assert float(sums["accuracy"]) == np.sum(margins > 0)


def test_the_loss_of_the_base_itself_is_ln_2_and_its_gradient_favors_the_chosen_answer(one_device: None) -> None:
    base = GPT(CONFIG.model, nnx.Rngs(1))
    ids = jnp.asarray(rows()[:3])
    pairs = Pairs(ids, answers(CONFIG, base, ids))
    graph, parameters = nnx.split(base, nnx.Param)

    def loss(parameters: Any) -> Any:
        return loss_sum(CONFIG, nnx.merge(graph, parameters), pairs, None)[0] / 3

    value, gradients = jax.value_and_grad(loss)(parameters)
    assert float(value) == pytest.approx(np.log(2), abs=1e-6)
    moved = jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)
    before, after = (answers(CONFIG, nnx.merge(graph, each), ids) for each in (parameters, moved))
    change = np.asarray(after - before)
    assert (change[:, 0] - change[:, 1] > 0).all()
