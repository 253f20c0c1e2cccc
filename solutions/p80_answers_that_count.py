"""Problem 80, reference: pass@k, a vote, best of n, and a paired interval."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import stdtrit


def pass_at_k(n: int, c: Int[np.ndarray, "P"], k: int) -> float:
    """The mean over the problems of the probability that k of the n samples hold a right one."""
    return float(np.mean(1 - _all_from(k, n)[n - c]))


def majority(answers: Sequence[int | None]) -> int | None:
    """The answer with the most votes. Of several, the one that appears first."""
    votes = Counter(answer for answer in answers if answer is not None)
    return max(votes, key=votes.__getitem__, default=None)  # in order of first appearance


def best_of_n(scores: Float[np.ndarray, "N"], correct: Bool[np.ndarray, "N"], n: int) -> float:
    """The probability that the highest score among n of the samples belongs to a right one."""
    _, level_N, count = np.unique(scores, return_inverse=True, return_counts=True)
    share_right = np.bincount(level_N, correct) / count
    up_to = np.cumsum(count)  # samples of this level or below
    highest = np.diff(_all_from(n, len(scores))[up_to], prepend=0.0)
    return float(np.sum(highest * share_right))


def paired_interval(
    a: Float[np.ndarray, "P A"], b: Float[np.ndarray, "P B"], groups: Int[np.ndarray, "P"]
) -> tuple[float, float, float]:
    """The mean difference of two models, and the ends of its 95% interval."""
    d_P = a.mean(axis=1) - b.mean(axis=1)
    P, difference = len(d_P), d_P.mean()
    _, group_P = np.unique(groups, return_inverse=True)
    sums = np.bincount(group_P, d_P - difference)
    G = len(sums)
    error = np.sqrt(G / (G - 1) * np.sum(sums**2)) / P
    margin = stdtrit(G - 1, 0.975) * error
    return float(difference), float(difference - margin), float(difference + margin)


def _all_from(n: int, N: int) -> np.ndarray:
    """The probabilities, (N + 1,), that n of N samples all come from a given j of them: C(j, n) / C(N, n)."""
    j = np.arange(N, 0, -1)
    return np.append(1.0, np.cumprod(np.maximum(j - n, 0) / j))[::-1]
