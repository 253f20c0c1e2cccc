"""The references of the problems on preferences and speculative decoding agree with independent oracles."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


def test_the_sft_loss_equals_that_of_optax_with_a_mask():
    from p50_preference_losses import answer_log_probability, sft_loss

    rng = np.random.default_rng(0)
    logits, token_ids = rng.standard_normal((7, 11)).astype("float32"), rng.integers(0, 11, 7)
    is_answer = np.array([False, False, True, True, False, True, False])
    losses = optax.softmax_cross_entropy_with_integer_labels(logits[:-1], token_ids[1:], where=is_answer[1:, None])
    np.testing.assert_allclose(sft_loss(logits, token_ids, is_answer), losses[is_answer[1:]].mean(), rtol=1e-5)
    np.testing.assert_allclose(
        answer_log_probability(logits, token_ids, is_answer), -losses[is_answer[1:]].sum(), rtol=1e-5
    )


def test_the_dpo_loss_is_that_of_a_classifier_of_the_margin():
    from p50_preference_losses import answer_log_probability, dpo_loss

    rng = np.random.default_rng(0)
    policy, reference = rng.standard_normal((2, 2, 7, 11)).astype("float32")
    token_ids, is_answer = rng.integers(0, 11, (2, 7)), rng.random((2, 7)) < 0.5
    log_p = [[answer_log_probability(*row) for row in zip(logits, token_ids, is_answer, strict=True)]
             for logits in (policy, reference)]  # fmt: skip
    margin = 0.4 * ((log_p[0][0] - log_p[1][0]) - (log_p[0][1] - log_p[1][1]))
    loss = dpo_loss(policy, reference, token_ids, is_answer, 0.4)
    np.testing.assert_allclose(loss, optax.sigmoid_binary_cross_entropy(margin, 1.0), rtol=1e-5)


def test_the_gradient_of_dpo_pushes_harder_where_the_order_is_wrong():
    """It is that of the log-probabilities, times beta times the probability that the rejected answer wins."""
    from p50_preference_losses import answer_log_probability, dpo_loss

    rng = np.random.default_rng(0)
    policy, reference = jnp.asarray(rng.standard_normal((2, 2, 7, 11)), jnp.float32)
    token_ids, is_answer = jnp.asarray(rng.integers(0, 11, (2, 7))), jnp.asarray(rng.random((2, 7)) < 0.5)
    log_p = jax.vmap(answer_log_probability)
    rewards = 0.4 * (log_p(policy, token_ids, is_answer) - log_p(reference, token_ids, is_answer))
    slopes = jax.vmap(jax.grad(answer_log_probability))(policy, token_ids, is_answer)
    expected = 0.4 * jax.nn.sigmoid(rewards[1] - rewards[0]) * slopes * jnp.array([-1.0, 1.0])[:, None, None]
    own = jax.grad(dpo_loss)(policy, reference, token_ids, is_answer, 0.4)
    np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-6)


def test_advantages_and_the_loss_equal_those_of_the_harness():
    from p51_grpo import group_advantages, grpo_loss

    from harness.training import grpo

    rng = np.random.default_rng(0)
    rewards = rng.standard_normal((3, 5)).astype("float32")
    rewards[1] = 0.1
    np.testing.assert_allclose(group_advantages(rewards), grpo.advantages(rewards.astype(float)), rtol=1e-4, atol=1e-6)
    old, base, sampled = rng.standard_normal((4, 7)), rng.standard_normal((4, 7)), rng.random((4, 7)) < 0.5
    loss = grpo_loss(old, old, base, sampled, np.array([1.0, -2.0, 0.5, 0.0]), 0.2, 0.3)
    gain = np.array([[1.0], [-2.0], [0.5], [0.0]]) * np.ones((4, 7))
    expected = 0.3 * grpo.kl_estimate(jnp.asarray(old), jnp.asarray(base)) - gain
    np.testing.assert_allclose(loss, expected[sampled].mean(), rtol=1e-5)


def test_the_first_gradient_of_grpo_is_the_policy_gradient():
    """Minus the advantage, divided by the number of tokens."""
    from p51_grpo import grpo_loss

    old, sampled = np.full((2, 3), -1.0, "float32"), np.array([[True, True, False], [False, True, True]])
    advantages = np.array([1.0, -2.0], "float32")
    own = jax.grad(grpo_loss)(old, old, old, sampled, advantages, 0.2, 0.0)
    np.testing.assert_allclose(own, -advantages[:, None] * sampled / 4, rtol=1e-5)


def test_the_text_of_speculative_decoding_has_the_distribution_of_the_target():
    """The law of the first token, from all drafts and a fine grid of uniform numbers, is the target's."""
    from p52_speculative_decoding import speculative_step

    target = jnp.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6]])
    draft = jnp.array([[0.2, 0.7, 0.1], [0.3, 0.3, 0.4]])
    grid = (jnp.arange(40) + 0.5) / 40
    first, last = (array.ravel() for array in jnp.meshgrid(grid, grid))
    uniforms = jnp.stack([first, jnp.full_like(first, 0.5), last], axis=1)
    law = np.zeros(3)
    for token in range(3):
        step = jax.jit(jax.vmap(lambda u, token=token: speculative_step(target, draft, jnp.array([token, 0]), u)))
        tokens, counts = step(uniforms)
        assert ((tokens >= 0).sum(axis=1) == counts).all()
        law += float(draft[0, token]) * np.bincount(tokens[:, 0], minlength=3) / len(uniforms)
    np.testing.assert_allclose(law, target[0], atol=0.02)  # the grid has steps of 1/40


def test_a_perfect_draft_is_always_accepted():
    from p52_speculative_decoding import speculative_step

    target = jnp.full((4, 5), 0.2)
    tokens, count = speculative_step(target, target[:3], jnp.array([4, 0, 2]), jnp.array([0.999, 0.999, 0.999, 0.5]))
    assert ([*tokens.tolist()], int(count)) == ([4, 0, 2, 2], 4)


def test_a_token_of_probability_0_is_never_drawn():
    """At the smallest and the largest uniform number, and where float32 sums end below it."""
    from p52_speculative_decoding import draw

    rng, largest = np.random.default_rng(0), np.float32(1 - 2**-24)
    weights = rng.uniform(0.3, 3.0, (200, 1000)) ** 1.5 * (rng.random((200, 1000)) < 0.5)
    laws = jnp.asarray(weights / weights.sum(axis=1, keepdims=True), jnp.float32)
    assert (jnp.cumsum(laws, axis=1)[:, -1] <= largest).any()  # nothing is greater than the uniform number there
    for uniform in (np.float32(0), largest):
        drawn = jax.vmap(draw, (0, None))(laws, uniform)
        assert (laws[np.arange(200), drawn] > 0).all()


def test_grpo_learns_nothing_where_no_token_is_sampled():
    from p51_grpo import grpo_loss

    numbers, none = np.random.default_rng(0).standard_normal((3, 2, 4)).astype("float32"), np.zeros((2, 4), bool)
    loss, slope = jax.value_and_grad(grpo_loss)(*numbers, none, np.ones(2, "float32"), 0.2, 0.1)
    assert loss == 0
    assert not slope.any()
