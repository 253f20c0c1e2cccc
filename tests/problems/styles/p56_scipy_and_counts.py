"""Buckets counted by NumPy, SciPy's minimizer on the JAX loss in double precision by hand, and a loop over
thresholds."""

import hashlib
import re

import jax
import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

HELD_OUT = 4


def bucket(gram, seed, num_buckets):
    digest = hashlib.blake2b(gram.encode(), digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little") % num_buckets


def features(text, num_buckets, seed):
    words = [match.group().lower() for match in re.finditer(r"\w+", text)]
    found = [bucket(" ".join(words[i : i + n]), seed, num_buckets) for n in (1, 2) for i in range(len(words) - n + 1)]
    counts = np.bincount(np.array(found, int), minlength=num_buckets)
    return counts / counts.sum() if found else np.zeros(num_buckets)


def logistic_loss(weights, bias, x, labels, l2):
    z = jax.numpy.einsum("db,b->d", x, weights) + bias
    good, bad = jax.nn.log_sigmoid(z), jax.nn.log_sigmoid(-z)
    return -jax.numpy.mean(jax.numpy.where(labels == 1, good, bad)) + 0.5 * l2 * weights @ weights


def fit(x, labels, l2):
    def loss(theta):
        w, b = theta[1:], theta[0]
        z = x @ w + b
        slope = (expit(z) - labels) / len(labels)
        value = np.mean(np.logaddexp(0, z) - labels * z) + l2 / 2 * w @ w
        return value, np.append(slope.sum(), x.T @ slope + l2 * w)

    found = minimize(loss, np.zeros(x.shape[1] + 1), jac=True, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-8})
    return found.x[1:], found.x[0]


def choose_threshold(scores, labels, recall):
    good = scores[labels > 0]
    enough = [score for score in set(good.tolist()) if np.mean(good >= score) >= recall]
    return max(enough)


def evaluate(scores, labels, threshold):
    kept = labels[scores >= threshold]
    return float(kept.mean()), float(kept.sum() / labels.sum())


def train_filter(texts, labels, groups, num_buckets, seed, l2, recall):
    inside, outside = [], []
    for text, label, group in zip(texts, labels, groups, strict=True):
        (inside if bucket(group, seed, HELD_OUT) else outside).append((features(text, num_buckets, seed), label))
    x, y = map(np.array, zip(*inside, strict=True))
    weights, bias = fit(x, y, l2)
    x, y = map(np.array, zip(*outside, strict=True))
    return weights, bias, choose_threshold(x @ weights + bias, y, recall)


def keep(texts, weights, bias, threshold, seed):
    return np.array([features(text, len(weights), seed) @ weights + bias >= threshold for text in texts])
