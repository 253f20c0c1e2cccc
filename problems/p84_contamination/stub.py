"""Problem 84: contamination. The page is in pages/p84_contamination.md."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtr

SHORT, CLEAN, QUESTION, ANSWERED = -1, 0, 1, 2


def words(text: str) -> list[str]:
    """The words of a text, written so that copies in another form have the same
    ones."""
    raise NotImplementedError


def scan(
    documents: Iterable[str],
    tests: Sequence[tuple[str, str]],
    n: int,
    share: float,
    reach: int,
) -> tuple[Float[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    """What the training documents, which can be read once, have of N tests, each a
    question and its answer.

    The first result is the largest share of a question's words that one document has
    in runs of n words. The second one is SHORT, CLEAN, QUESTION (a document has at
    least `share` of the question) or ANSWERED (one also has the answer, at most
    `reach` words behind the question).
    """
    raise NotImplementedError


def exposure(
    canaries: Float[np.ndarray, "N"],
    others: Float[np.ndarray, "M"],
) -> Float[np.ndarray, "N"]:
    """The exposure in bits of N canaries, from their losses and those of M texts that
    could have been canaries."""
    raise NotImplementedError


def order_test(
    canonical: Float[np.ndarray, "S"],
    shuffled: Float[np.ndarray, "S M"],
) -> float:
    """The p-value of the order of a test set, from the log-probabilities of its S
    shards in their order and in M random orders each. `stdtr(degrees, t)` is
    Student's distribution function."""
    raise NotImplementedError


def holm(p_values: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    """The p-values of N tests, adjusted by Holm's method."""
    raise NotImplementedError
