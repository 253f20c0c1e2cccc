"""The reference of problem 79 agrees with closed forms, and its bandits are missed by biased losses."""

import itertools
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grader.course import catalog
from grader.problem import Case
from grader.worker.subject import Subject
from tests.conftest import ROOT

NAME = "p79_policy_with_lag"
LIMITS = (0.2, 0.28, 2.0)  # clip_low, clip_high, max_weight
REFERENCE = (ROOT / "solutions" / f"{NAME}.py").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


def test_without_a_gap_and_with_equal_bounds_it_is_grpo():
    from p51_grpo import grpo_loss
    from p79_policy_with_lag import policy_loss

    rng = np.random.default_rng(0)
    new, old, advantages = (rng.standard_normal(shape).astype("float32") for shape in ((4, 7), (4, 7), 4))
    sampled = rng.random((4, 7)) < 0.5
    own = jax.value_and_grad(policy_loss)(new, old, old, sampled, advantages, "token", 0.2, 0.2, 2.0)
    expected = jax.value_and_grad(grpo_loss)(new, old, old, sampled, advantages, 0.2, 0.0)
    for got, wanted in zip(own, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-7)


def test_the_first_gradient_of_a_text_is_its_weight_times_its_advantage_over_its_length():
    from p79_policy_with_lag import policy_loss

    sampled = np.arange(5) < np.array([[2], [5], [0]])
    old, gap = np.full((3, 5), -1.0, "float32"), np.array([[0.1], [-0.1], [0.0]], "float32")
    advantages, weights = np.array([1.0, -2.0, 3.0], "float32"), np.exp([0.2, -0.5, 0.0])
    slope = jax.grad(policy_loss)(old, old, old - gap, sampled, advantages, "sequence", *LIMITS)
    expected = -weights * advantages / np.array([2, 5, 1]) / 2  # two texts have tokens
    np.testing.assert_allclose(slope, expected[:, None] * sampled, rtol=1e-5)


def test_weights_of_texts_turn_a_mean_over_the_samplers_texts_into_one_over_the_trainers():
    """Those of tokens do not, and neither does their geometric mean."""
    from p79_policy_with_lag import sampler_weights

    rng = np.random.default_rng(0)
    texts = np.array(list(itertools.product(range(3), repeat=2)))
    (first, second), (first_s, second_s) = (
        (np.log(rng.dirichlet(np.ones(3))), np.log(rng.dirichlet(np.ones(3), size=3))) for _ in range(2)
    )
    old = np.stack([first[texts[:, 0]], second[texts[:, 0], texts[:, 1]]], axis=1)
    sampler = np.stack([first_s[texts[:, 0]], second_s[texts[:, 0], texts[:, 1]]], axis=1)
    rewards, drawn = rng.standard_normal(9), np.ones((9, 2), bool)
    wanted = np.sum(np.exp(old.sum(axis=1)) * rewards)
    means = {}
    for kind in ("token", "sequence"):
        weights = np.asarray(sampler_weights(old, sampler, drawn, kind, 1e6))
        means[kind] = np.sum(np.exp(sampler.sum(axis=1))[:, None] * weights * rewards[:, None], axis=0)
    np.testing.assert_allclose(means["sequence"], [wanted, wanted], rtol=1e-4)
    assert np.abs(means["token"] - wanted).min() > 0.01


def test_value_and_gradient_of_the_kl_loss_are_those_of_the_divergence():
    """From the draws of a sampler that is neither the old policy nor the new one."""
    from p79_policy_with_lag import kl_loss

    tokens = np.repeat(np.arange(3), [2, 3, 5])[:, None]
    sampler = np.log(np.array([0.2, 0.3, 0.5]))[tokens]
    old, base = (np.log(np.array(odds)) for odds in ([0.3, 0.4, 0.3], [0.1, 0.1, 0.8]))
    scores = jnp.log(jnp.array([0.5, 0.25, 0.25]))

    def estimate(scores):
        new = jax.nn.log_softmax(scores)[tokens]
        return kl_loss(new, old[tokens], sampler, base[tokens], np.ones((10, 1), bool), 1e6)

    def divergence(scores):
        log_p = jax.nn.log_softmax(scores)
        return jnp.sum(jnp.exp(log_p) * (log_p - base))

    own, expected = (jax.value_and_grad(function)(scores) for function in (estimate, divergence))
    np.testing.assert_allclose(own[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(own[1], expected[1], atol=1e-6)


def drawn(family: str, seed: int) -> Case:
    problem = catalog.load(NAME)
    return Case(problem.cases[family].make({}, np.random.default_rng(seed)))


def learned(case: Case, source: str = REFERENCE) -> np.ndarray:
    """What the probe's bandit learns from the functions of a file."""
    problem = catalog.load(NAME)
    module = types.ModuleType("mine")
    exec(compile(source, "mine.py", "exec"), vars(module))
    reading = catalog.probes_module(problem.folder).PROBES["learning"](Subject(problem, vars(module), eager=True), case)
    return np.asarray(reading.arrays["policy"])


def best(case: Case) -> np.ndarray:
    """The policy with the largest mean reward less its KL term."""
    values, beta = case.values, case.values["kl_weight"]
    base = np.exp(values["scores"]) / np.exp(values["scores"]).sum()
    rewards = dict(zip(map(tuple, values["texts"].tolist()), values["rewards"].tolist(), strict=True))
    if values["texts"].shape[1] == 1:
        odds = base * np.exp(np.array([rewards[token,] for token in range(len(base))]) / beta)
        return odds / odds.sum()
    p = np.linspace(0.0005, 0.9995, 20_000)  # of token 1: a text has two draws
    policy = np.stack([1 - p, p])
    paid = sum(reward * policy[first] * policy[second] for (first, second), reward in rewards.items())
    paid = paid - beta * 2 * np.sum(policy * np.log(policy / base[:, None]), axis=0)
    return policy[:, np.argmax(paid)]


@pytest.mark.parametrize("family", ["bandit", "bandit of texts"])
def test_a_bandit_ends_at_the_best_policy(family):
    for seed in range(4):
        case = drawn(family, seed)
        np.testing.assert_allclose(learned(case), best(case), atol=3e-4)


@pytest.mark.parametrize(
    ("family", "find", "replace"),
    [
        ("bandit", "kl = ratio * (jnp", "kl = (jnp"),
        ("bandit", "jnp.sum(weights * kl)", "jnp.sum(kl)"),
        ("bandit", "jnp.minimum(jnp.exp(gap), max_weight)", "jnp.ones_like(gap)"),
        ("bandit", "jax.lax.stop_gradient(jnp.where(sampled, weights, 0.0))", "jnp.where(sampled, weights, 0.0)"),
        ("bandit of texts", "jnp.minimum(jnp.exp(gap), max_weight)", "jnp.ones_like(gap)"),
        ("bandit of texts", "        gap = jnp.sum(gap, axis=1, keepdims=True)", "        pass"),
        ("bandit of texts", "jnp.sum(jnp.where(sampled, old - base, 0.0), axis=1)", "jnp.mean(old - base, axis=1)"),
    ],
)
def test_a_biased_version_misses_it(family, find, replace):
    assert REFERENCE.count(find) == 1
    case = drawn(family, 0)
    assert np.abs(learned(case, REFERENCE.replace(find, replace)) - best(case)).max() > 0.01
