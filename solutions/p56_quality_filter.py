"""Problem 56, reference: a quality filter by hashed n-grams and logistic regression."""

import hashlib
import re
from collections.abc import Sequence
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

HELD_OUT = 4  # one group in so many


def bucket(gram: str, seed: int, num_buckets: int) -> int:
    """A number below `num_buckets` that depends on the gram and the seed, and is the same in each process."""
    digest = hashlib.blake2b(gram.encode(), digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little") % num_buckets


def features(text: str, num_buckets: int, seed: int) -> Float[np.ndarray, "B"]:
    """The share of words and pairs of words in each bucket (Weinberger et al. 2009, without signs)."""
    words = re.findall(r"\w+", text.lower())
    grams = words + [f"{left} {right}" for left, right in pairwise(words)]
    x_B = np.zeros(num_buckets)
    for gram in grams:
        x_B[bucket(gram, seed, num_buckets)] += 1
    return x_B / max(1, len(grams))


def logistic_loss(
    weights: Float[Array, "B"], bias: Float[Array, ""], x: Float[Array, "N B"], labels: Int[Array, "N"], l2: float
) -> Float[Array, ""]:
    """The mean cross-entropy, without overflow, and a penalty on the weights."""
    logits_N = x @ weights + bias
    losses_N = jnp.logaddexp(0, logits_N) - labels * logits_N
    return losses_N.mean() + l2 / 2 * jnp.sum(weights**2)


def fit(x: Float[np.ndarray, "N B"], labels: Int[np.ndarray, "N"], l2: float) -> tuple[Float[np.ndarray, "B"], float]:
    """Newton's method. The loss is convex, so a few steps reach its only minimum."""
    N, B = x.shape
    design = np.column_stack([x, np.ones(N)])
    penalty = l2 * np.append(np.ones(B), 0)
    theta = np.zeros(B + 1)
    for _ in range(30):
        p_N = 1 / (1 + np.exp(-design @ theta))
        gradient = design.T @ (p_N - labels) / N + penalty * theta
        hessian = (design.T * (p_N * (1 - p_N))) @ design / N + np.diag(penalty)
        theta = theta - np.linalg.solve(hessian, gradient)
    return theta[:-1], theta[-1]


def choose_threshold(scores: Float[np.ndarray, "N"], labels: Int[np.ndarray, "N"], recall: float) -> float:
    """The score of the good text that just completes the wanted share."""
    good = np.sort(scores[labels == 1])[::-1]
    shares = np.arange(1, len(good) + 1) / len(good)
    return float(good[np.argmax(shares >= recall)])


def evaluate(scores: Float[np.ndarray, "N"], labels: Int[np.ndarray, "N"], threshold: float) -> tuple[float, float]:
    """The share of good texts among those that are kept, and the share of good texts that are kept."""
    kept = scores >= threshold
    right = np.sum(kept & (labels == 1))
    return right / kept.sum(), right / np.sum(labels == 1)


def train_filter(
    texts: Sequence[str],
    labels: Int[np.ndarray, "N"],
    groups: Sequence[str],
    num_buckets: int,
    seed: int,
    l2: float,
    recall: float,
) -> tuple[Float[np.ndarray, "B"], float, float]:
    """Fits on three groups of four, and chooses the threshold on the others."""
    x = np.stack([features(text, num_buckets, seed) for text in texts])
    held_out = np.array([bucket(group, seed, HELD_OUT) == 0 for group in groups])
    weights, bias = fit(x[~held_out], labels[~held_out], l2)
    return weights, bias, choose_threshold(x[held_out] @ weights + bias, labels[held_out], recall)


def keep(
    texts: Sequence[str], weights: Float[np.ndarray, "B"], bias: float, threshold: float, seed: int
) -> Bool[np.ndarray, "N"]:
    """Which texts have at least the score of the threshold."""
    x = np.stack([features(text, len(weights), seed) for text in texts])
    return x @ weights + bias >= threshold
