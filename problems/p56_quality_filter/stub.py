"""Problem 56: a quality filter. The page is in pages/p56_quality_filter.md."""

import hashlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Bool, Float, Int

HELD_OUT = 4  # one group in so many


def bucket(gram: str, seed: int, num_buckets: int) -> int:
    """A number below `num_buckets` that depends on the gram and the seed, and is
    the same in each process."""
    key = seed.to_bytes(8, "little")
    digest = hashlib.blake2b(gram.encode(), digest_size=8, key=key).digest()
    return int.from_bytes(digest, "little") % num_buckets


def features(text: str, num_buckets: int, seed: int) -> Float[np.ndarray, "B"]:
    """The share of the text's words and pairs of words that fall into each bucket."""
    raise NotImplementedError


def logistic_loss(
    weights: Float[Array, "B"],
    bias: Float[Array, ""],
    x: Float[Array, "N B"],
    labels: Int[Array, "N"],
    l2: float,
) -> Float[Array, ""]:
    """The mean cross-entropy of N texts, and l2 / 2 times the sum of the squared
    weights."""
    raise NotImplementedError


def fit(
    x: Float[np.ndarray, "N B"],
    labels: Int[np.ndarray, "N"],
    l2: float,
) -> tuple[Float[np.ndarray, "B"], float]:
    """The weights and the bias with the lowest `logistic_loss`."""
    raise NotImplementedError


def choose_threshold(
    scores: Float[np.ndarray, "N"],
    labels: Int[np.ndarray, "N"],
    recall: float,
) -> float:
    """The highest threshold that keeps this share of the good texts, or more."""
    raise NotImplementedError


def evaluate(
    scores: Float[np.ndarray, "N"],
    labels: Int[np.ndarray, "N"],
    threshold: float,
) -> tuple[float, float]:
    """Precision and recall of the texts whose score is not below the threshold."""
    raise NotImplementedError


def train_filter(
    texts: Sequence[str],
    labels: Int[np.ndarray, "N"],
    groups: Sequence[str],
    num_buckets: int,
    seed: int,
    l2: float,
    recall: float,
) -> tuple[Float[np.ndarray, "B"], float, float]:
    """The weights and the bias of a fit to some groups, and the threshold that gives
    the recall on the others."""
    raise NotImplementedError


def keep(
    texts: Sequence[str],
    weights: Float[np.ndarray, "B"],
    bias: float,
    threshold: float,
    seed: int,
) -> Bool[np.ndarray, "N"]:
    """Which texts the filter keeps."""
    raise NotImplementedError
