"""Iterated least squares, `np.add.at`, a threshold found by trying every good score, and the loss by `log_sigmoid`."""

import hashlib
import re

import jax
import numpy as np

HELD_OUT = 4


def bucket(gram, seed, num_buckets):
    digest = hashlib.blake2b(gram.encode(), digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little") % num_buckets


def features(text, num_buckets, seed):
    words = [match.group() for match in re.finditer(r"\w+", text.lower())]
    grams = words + [f"{left} {right}" for left, right in zip(words, words[1:])]
    shares = np.zeros(num_buckets)
    np.add.at(shares, [bucket(gram, seed, num_buckets) for gram in grams] or np.zeros(0, int), 1 / max(1, len(grams)))
    return shares


def logistic_loss(weights, bias, x, labels, l2):
    signs = 2 * labels - 1  # 1 for good texts, -1 for bad ones
    return l2 / 2 * weights @ weights - jax.nn.log_sigmoid(signs * (x @ weights + bias)).mean()


def fit(x, labels, l2):
    """Newton's method, iterated least squares: each step fits the weighted residuals, with the penalty as further
    rows."""
    D, B = x.shape
    ones = np.hstack([x, np.ones((D, 1))])
    penalty = np.hstack([np.sqrt(l2) * np.eye(B), np.zeros((B, 1))])
    theta = np.zeros(B + 1)
    for _ in range(50):
        z = ones @ theta
        p = np.exp(-np.logaddexp(0, -z))
        root = np.sqrt(np.maximum(p * (1 - p), 1e-12) / D)
        aim = z + (labels - p) / np.maximum(p * (1 - p), 1e-12)
        new = np.linalg.lstsq(
            np.vstack([root[:, None] * ones, penalty]), np.append(root * aim, np.zeros(B)), rcond=None
        )[0]
        if np.allclose(new, theta, rtol=1e-9, atol=1e-9):
            break
        theta = new
    return theta[:-1], float(theta[-1])


def choose_threshold(scores, labels, recall):
    good = scores[labels == 1]
    return float(max(score for score in good if (good >= score).mean() >= recall))


def evaluate(scores, labels, threshold):
    table = np.zeros((2, 2), int)  # good or bad, kept or not
    np.add.at(table, (labels, (scores >= threshold).astype(int)), 1)
    return table[1, 1] / table[:, 1].sum(), table[1, 1] / table[1].sum()


def train_filter(texts, labels, groups, num_buckets, seed, l2, recall):
    sides = {True: [], False: []}
    for text, label, group in zip(texts, labels, groups):
        sides[bucket(group, seed, HELD_OUT) == 0].append((features(text, num_buckets, seed), label))
    (seen, seen_labels), (held, held_labels) = (map(np.array, zip(*sides[side])) for side in (False, True))
    weights, bias = fit(seen, seen_labels, l2)
    return weights, bias, choose_threshold(np.array([row @ weights + bias for row in held]), held_labels, recall)


def keep(texts, weights, bias, threshold, seed):
    return np.array([features(text, len(weights), seed) @ weights + bias >= threshold for text in texts], bool)
