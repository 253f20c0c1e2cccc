"""The loss on held-out rows: it is that of the targets that count, and a program that looks ahead is refused."""

import numpy as np
import pytest

from grader.authoring import RefusedProgramError, nats

V = 7
RNG = np.random.default_rng(0)
IDS = RNG.integers(V, size=(4, 9))
TABLE = RNG.normal(size=(V, V))
GIVEN, TARGETS = {"tokens": IDS[:, :-1]}, IDS[:, 1:]
ALL = np.ones(TARGETS.shape, bool)


def of(logits, counted=ALL, seed: int = 0) -> float:
    return nats(lambda given, counts: logits(given["tokens"]), GIVEN, TARGETS, counted, np.random.default_rng(seed))


def test_the_loss_is_the_sum_over_the_targets_that_count():
    chances = np.exp(TABLE) / np.exp(TABLE).sum(1, keepdims=True)
    counted = RNG.random(TARGETS.shape) < 0.5
    expected = -np.log(chances[IDS[:, :-1], TARGETS])[counted].sum()
    assert of(lambda tokens: TABLE[tokens], counted) == pytest.approx(expected)
    shifted = of(lambda tokens: TABLE[tokens] + 1e4, counted)
    assert shifted == pytest.approx(expected)


@pytest.mark.parametrize("beside", [0.0, 1e6, -1e6])
@pytest.mark.parametrize("size", [20.0, 0.1])
def test_logits_that_depend_on_the_next_token_are_refused(beside: float, size: float):
    def logits(tokens):
        found = size * np.eye(V)[np.roll(tokens, -1, axis=1)]
        found[..., 0] += min(beside, 0)  # a logit beside which others are small, or all of them far from 0
        return found + max(beside, 0)

    with pytest.raises(RefusedProgramError, match="later tokens"):
        of(logits)


def test_logits_of_a_token_that_never_occurs_may_be_huge():
    def logits(tokens):
        return np.where(np.arange(V) == V - 1, -1e9 * (1 + tokens.sum()), TABLE[tokens])

    of(logits, TARGETS != V - 1)


def test_logits_that_are_not_finite_are_refused():
    with pytest.raises(RefusedProgramError, match="not finite"):
        of(lambda tokens: np.full((*tokens.shape, V), np.nan))
