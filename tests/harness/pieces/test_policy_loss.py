"""The pieces of `harness rl` after grpo_loss: the losses of problem 79 are those of the harness, and problem 81 judges
answers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from harness.config import Config
from harness.errors import PieceError
from harness.pieces import assemble
from harness.pieces.load import Pieces
from harness.run.tasks import get_problems
from harness.training import grpo
from harness.training.grpo import Rollouts, penalized

V, B, T = 7, 5, 6
SETTINGS: list[dict[str, Any]] = [
    dict(kl_weight=0.0),
    dict(kl_weight=0.0, clip_high=0.5),
    dict(kl_weight=0.0, max_weight=1.2),
    dict(kl_weight=0.7, kl_estimate="ratio_k3"),
    dict(kl_weight=0.7, kl_estimate="ratio_k3", max_weight=1.2, clip_high=0.5),
    dict(kl_in="reward", ratio="sequence", loss_mean="sequence"),
    dict(kl_in="reward", ratio="sequence", loss_mean="sequence", clip_ratio=0.05, clip_high=0.2, max_weight=1.5),
]


class Table(nnx.Module):
    """A model that knows the last token only."""

    def __init__(self) -> None:
        self.logits = nnx.Param(jax.random.normal(jax.random.key(0), (V, V)))

    def __call__(self, ids_T: Any) -> Any:
        return self.logits[...][ids_T]


def rollouts(config: Config) -> Rollouts:
    """Continuations of different lengths, one of them without a token that counts."""
    rng = np.random.default_rng(0)
    ids_BW = rng.integers(0, V, (B, T + 1)).astype("int32")
    sampled_BT = np.arange(T) < np.array([[6], [3], [1], [0], [4]])
    new_BT, _ = grpo.log_probabilities(config, Table(), jnp.asarray(ids_BW))
    old_BT, sampler_BT, base_BT = (new_BT + 0.3 * rng.standard_normal((B, T)).astype("float32") for _ in range(3))
    return Rollouts(
        jnp.asarray(ids_BW), jnp.asarray(sampled_BT), old_BT, base_BT if config.has_kl_loss else None,
        jnp.asarray(rng.standard_normal(B).astype("float32")), sampler_BT if config.max_weight else None,
    )  # fmt: skip


def mean_and_slope(loss_sum: Callable[..., Any], sampled: Rollouts) -> tuple[float, np.ndarray]:
    def mean(model: Table) -> Any:
        total, count, *_ = loss_sum(model, sampled, None)
        return total / count

    value, slope = nnx.value_and_grad(mean)(Table())
    return float(value), np.asarray(slope.logits[...])


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_loss_of_the_piece_is_that_of_the_harness(settings: dict[str, Any], pieces: Pieces, tiny: Config) -> None:
    rewarded = dict(reward="ends", base="x", prompts=1, group_size=B, batch_size=B, prompt_tokens=1)
    config = replace(tiny, **rewarded, **settings)
    sampled, loss = rollouts(config), assemble.rollout_loss(config, pieces)
    assert loss is not None
    assert pieces.uses("policy_loss", config)
    own = mean_and_slope(lambda *each: grpo.loss_sum(config, *each), sampled)
    theirs = mean_and_slope(loss, sampled)
    np.testing.assert_allclose(theirs[0], own[0], rtol=1e-5)
    np.testing.assert_allclose(theirs[1], own[1], rtol=1e-4, atol=1e-6)


def test_the_rewards_of_the_harness_are_those_of_the_page() -> None:
    from p79_policy_with_lag import penalized_rewards

    rng = np.random.default_rng(1)
    rewards_B, sampled_BT = rng.random(B), rng.random((B, T)) < 0.5
    old_BT, base_BT = rng.standard_normal((2, B, T))
    expected = penalized_rewards(*map(jnp.asarray, (rewards_B, old_BT, base_BT, sampled_BT)), 0.3)
    np.testing.assert_allclose(penalized(rewards_B, old_BT, base_BT, sampled_BT, 0.3), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("#### 12", True),
        ("4+8=12 #### 12", True),
        ("The answer is 12.", True),
        ("12", True),
        ("#### 12 or 13", False),
        ("#### 13", False),
        ("#### twelve", False),
    ],
)
def test_the_verifier_of_a_learner_judges_what_is_marked(text: str, is_right: bool, pieces: Pieces) -> None:
    problems = get_problems("arithmetic", assemble.verifier(pieces))
    assert problems.reward("", text, True, 12) == is_right
    assert problems.reward("", text, False, 12) == 0  # it was cut off


def test_a_verifier_must_say_yes_or_no(pieces: Pieces) -> None:
    broken = replace(pieces, by_name={"verify": lambda answer, truth: None})
    verify = assemble.verifier(broken)
    assert verify is not None
    with pytest.raises(PieceError, match="verify returned None for the answer '12'; it must return True or False"):
        verify("12", "12")
