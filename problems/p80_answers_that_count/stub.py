"""Problem 80: answers that count. The page is in pages/p80_answers_that_count.md."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import stdtrit


def pass_at_k(n: int, c: Int[np.ndarray, "P"], k: int) -> float:
    """The estimated probability that at least one of k samples is right: the mean over
    P problems, of which problem p has c[p] right ones among n samples."""
    raise NotImplementedError


def majority(answers: Sequence[int | None]) -> int | None:
    """The answer that most samples give; the first of several to appear. None
    stands for a missing answer."""
    raise NotImplementedError


def best_of_n(
    scores: Float[np.ndarray, "N"],
    correct: Bool[np.ndarray, "N"],
    n: int,
) -> float:
    """The probability that the highest score among n of the N samples,
    drawn without replacement, belongs to a right one. Tied samples are
    equally likely to be chosen."""
    raise NotImplementedError


def paired_interval(
    a: Float[np.ndarray, "P A"],
    b: Float[np.ndarray, "P B"],
    groups: Int[np.ndarray, "P"],
) -> tuple[float, float, float]:
    """The mean difference a - b over P problems, and the ends of its 95% interval:
    (difference, low, high).

    Problems with the same number in `groups` belong together. `stdtrit(degrees,
    0.975)` is Student's quantile.
    """
    raise NotImplementedError
