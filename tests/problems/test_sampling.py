"""Problem 29: its reference agrees with float64, and what its reader concludes from drawn texts."""

import sys

import jax
import numpy as np
import pytest

from grader.course import cases, catalog
from problems.p29_sampling import probes
from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, 0), (0.1, 0), (1.0, 1000)])
def test_at_top_p_1_the_reference_keeps_all_tokens(temperature, top_k):
    """The cumulative sum of 1,000 probabilities rounds to 1 long before its end."""
    from p29_sampling import sampling_distribution

    logits = np.random.default_rng(0).permutation(1000) * 0.005
    p = np.exp(logits / temperature - max(logits) / temperature)
    odds = sampling_distribution(logits.astype(np.float32), temperature, top_k, 1.0)
    np.testing.assert_allclose(odds, p / p.sum(), rtol=1e-4)


CASE = cases.draw(catalog.find("29"), "random", 0)[0]
V = CASE.values["vocab_size"]


def read(draw, alone=None):
    """What is concluded from texts of tokens `draw(turn)`, and one drawn in another process."""
    n, few = probes.LENGTH, probes.FEW
    arrays = {
        "texts": np.stack([draw(turn, n) for turn in range(probes.TEXTS)]),
        "again": draw(0, few),
        "others": np.stack([draw(0, few)] * 4) if alone is None else np.stack([alone] * 4),
        "top_k": np.stack([draw(0, n)] * probes.FILTERED),
        "top_p": np.stack([draw(0, n)] * probes.FILTERED),
        "saved:text": draw(0, few),
    }
    return probes.read(arrays, None, CASE).arrays


def test_a_constant_key_is_told_from_a_greedy_choice():
    """Both give one token for each text. Only the greedy one is always the most likely."""
    noise = np.asarray(jax.random.gumbel(jax.random.key(0), V))
    logits = [-0.4 * probes._ranks(CASE, turn) / 0.6 for turn in range(probes.TEXTS)]
    constant = read(lambda turn, n: np.full(n, np.argmax(logits[turn] + noise)))
    greedy = read(lambda turn, n: np.full(n, np.argmax(logits[turn])))
    assert (constant["key.always_the_most_likely"], greedy["key.always_the_most_likely"]) == (0, 1)
    for found in (constant, greedy):
        assert (found["key.tokens_differ"], found["key.other_key_other_text"], found["frequencies.draws"]) == (0, 0, 0)
        assert not found["frequencies"].any()


def test_independent_draws_are_counted_by_rank():
    rng = np.random.default_rng(0)
    found = read(lambda turn, n: np.resize(np.argsort(probes._ranks(CASE, turn)), n), rng.integers(0, V, probes.FEW))
    assert found["frequencies.draws"] == probes.TEXTS * probes.LENGTH
    ranks = np.resize(np.arange(V), probes.LENGTH)
    np.testing.assert_allclose(found["frequencies"], np.bincount(ranks) / len(ranks), rtol=1e-6)
    assert (found["frequencies.outside_top_k"], found["frequencies.outside_top_p"]) == (1, 1)


def test_a_text_that_ends_early_is_noted_and_not_counted():
    rng = np.random.default_rng(0)

    def ended(turn, n):
        return np.where(np.arange(n) < n - 1, np.arange(n) % V, -1)

    found = read(ended, rng.integers(0, V, probes.FEW))
    assert (found["frequencies.ended_early"], found["frequencies.draws"]) == (1, 0)
