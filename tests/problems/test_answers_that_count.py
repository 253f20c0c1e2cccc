"""Problem 80: its reference agrees with closed forms and with all ways counted one by one, and its play shows what is
true of the trained model."""

import itertools
import sys
from fractions import Fraction
from math import comb

import numpy as np
import pytest
import scipy.stats

from tests.conftest import ROOT
from tests.problems.test_plays import shown


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


@pytest.mark.fast
def test_pass_at_k_is_the_share_of_choices_with_a_right_sample():
    from p80_answers_that_count import pass_at_k

    for c, k in itertools.product(range(7), range(1, 7)):
        ways = list(itertools.combinations([True] * c + [False] * (6 - c), k))
        assert pass_at_k(6, np.array([c]), k) == pytest.approx(sum(map(any, ways)) / len(ways))
    n, c, k = 100_000, np.array([17, 4_000, 99_990]), 250
    exact = [1 - Fraction(comb(n - right, k), comb(n, k)) for right in c.tolist()]
    assert pass_at_k(n, c, k) == pytest.approx(float(sum(exact) / 3), abs=1e-10)


@pytest.mark.fast
def test_pass_at_k_is_right_in_the_mean_and_the_shorter_formula_is_not():
    from p80_answers_that_count import pass_at_k

    n, k, p = 10, 4, 0.2
    binomial = scipy.stats.binom(n, p).pmf(np.arange(n + 1))
    counted = [pass_at_k(n, np.array([c]), k) for c in range(n + 1)]
    assert binomial @ counted == pytest.approx(1 - (1 - p) ** k)
    assert binomial @ (1 - (1 - np.arange(n + 1) / n) ** k) < 1 - (1 - p) ** k - 0.02


@pytest.mark.fast
def test_best_of_n_is_the_mean_over_all_choices_and_all_of_a_tie():
    from p80_answers_that_count import best_of_n

    rng = np.random.default_rng(0)
    for n in range(1, 8):
        scores, correct = rng.integers(0, 4, 7) / 2, rng.random(7) < 0.5
        means = []
        for ways in map(list, itertools.combinations(range(7), n)):
            means.append(correct[ways][scores[ways] == scores[ways].max()].mean())
        assert best_of_n(scores, correct, n) == pytest.approx(np.mean(means))


@pytest.mark.fast
def test_the_interval_is_that_of_students_test():
    from p80_answers_that_count import paired_interval

    rng = np.random.default_rng(1)
    a, b = rng.random((9, 3)), rng.random((9, 2))
    difference, low, high = paired_interval(a, b, np.arange(9))
    oracle = scipy.stats.ttest_rel(a.mean(axis=1), b.mean(axis=1)).confidence_interval(0.95)
    assert (low, high) == pytest.approx((oracle.low, oracle.high))
    # Groups of equal problems say no more than one of each.
    copied = paired_interval(np.repeat(a, 4, axis=0), np.repeat(b, 4, axis=0), np.repeat(np.arange(9), 4))
    assert copied == pytest.approx((difference, low, high))


@pytest.mark.thorough
def test_the_play_finds_the_models_own_probabilities(fork_server):
    passed, chosen, tests, held = shown("80", fork_server)
    yours, truth = (np.array(line.y) for line in passed.lines)
    assert np.abs(yours - truth).max() < 0.03
    assert "agree for every k" in passed.caption
    knows, vote, best = (line.y[-1] for line in chosen.lines)
    assert knows > max(vote, best) + 0.1
    assert "far below pass@k" in chosen.caption
    assert len(tests.rows) == 8
    assert "do what they say" in held.caption


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("find", "replace", "exhibit", "says"),
    [
        ("1 - _all_from(k, n)[n - c]", "_all_from(k, n)[c]", 0, "They should agree"),
        ("np.unique(scores, return_inverse", "np.unique(-scores, return_inverse", 1, "Yours end at"),
        ("np.sum(sums**2)) / P", "np.sum(sums**2)) / P / 2", 3, "Fewer means"),
        ("G / (G - 1) * np.sum(sums**2)", "P * (a.mean(1).var() + b.mean(1).var())", 3, "More means"),
    ],
)
def test_a_wrong_file_is_seen_in_the_play(fork_server, find: str, replace: str, exhibit: int, says: str):
    assert says in shown("80", fork_server, find, replace)[exhibit].caption
