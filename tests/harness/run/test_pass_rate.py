"""pass@k against its definition, and the interval against the equation that it solves."""

from itertools import combinations

import numpy as np
import pytest

from harness.run.pass_rate import PassRates, pass_at_k, wilson

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("solved", range(7))
@pytest.mark.parametrize("k", [1, 2, 5, 6])
def test_pass_at_k_is_the_share_of_choices_with_a_solved_answer(solved: int, k: int) -> None:
    choices = [*combinations([True] * solved + [False] * (6 - solved), k)]
    assert pass_at_k(solved, 6, k) == pytest.approx(np.mean([any(choice) for choice in choices]))


def test_the_estimate_is_unbiased() -> None:
    p, n, k = 0.3, 8, 3
    binomial = [_choose(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    expected = sum(weight * pass_at_k(c, n, k) for c, weight in enumerate(binomial))
    assert expected == pytest.approx(1 - (1 - p) ** k)


def _choose(n: int, c: int) -> int:
    return len([*combinations(range(n), c)])


@pytest.mark.parametrize(("rate", "number"), [(0.0, 10), (1.0, 10), (0.3, 200), (0.5, 1)])
def test_the_ends_of_the_interval_are_the_rates_at_which_the_seen_one_is_at_its_edge(rate: float, number: int) -> None:
    low, high = wilson(rate, number)
    assert 0 <= low <= rate <= high <= 1
    assert (low > 0, high < 1) == (rate > 0, rate < 1), "only an end at the seen rate is cut off"
    for end in {low, high} - {0.0, 1.0}:
        assert abs(rate - end) == pytest.approx(1.96 * np.sqrt(end * (1 - end) / number))


def test_rates_are_means_over_problems() -> None:
    solved = np.array([[True, False], [False, False], [True, True], [False, True]])
    rates = PassRates(solved, 3.0, 0.0)
    assert rates.at(1)[0] == pytest.approx(0.5)
    assert rates.at(2)[0] == pytest.approx(0.75)
    assert rates.at(1)[1:] == wilson(0.5, 4)
