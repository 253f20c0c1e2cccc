"""Dictionaries of counts, Newton's method in float32 by JAX's own derivatives, and sorted labels."""

import hashlib
import math
import re
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import optax

HELD_OUT = 4


def bucket(gram, seed, num_buckets):
    digest = hashlib.blake2b(gram.encode(), digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little") % num_buckets


def features(text, num_buckets, seed):
    words = re.findall(r"\w+", text.lower())
    grams = Counter(words) + Counter(f"{left} {right}" for left, right in zip(words, words[1:], strict=False))
    row = [0.0] * num_buckets
    for gram, count in grams.items():
        row[bucket(gram, seed, num_buckets)] += count / grams.total()
    return np.array(row)


def logistic_loss(weights, bias, x, labels, l2):
    losses = optax.sigmoid_binary_cross_entropy(x @ weights + bias, labels.astype(x.dtype))
    return jnp.mean(losses) + l2 * jnp.sum(jnp.square(weights)) / 2


def fit(x, labels, l2):
    x, labels = jnp.asarray(x, jnp.float32), jnp.asarray(labels)

    def loss(theta):
        return logistic_loss(theta[:-1], theta[-1], x, labels, l2)

    @jax.jit
    def step(_, theta):
        return theta - jnp.linalg.solve(jax.hessian(loss)(theta), jax.grad(loss)(theta))

    theta = np.array(jax.lax.fori_loop(0, 12, step, jnp.zeros(x.shape[1] + 1)))
    return theta[:-1], theta[-1]


def choose_threshold(scores, labels, recall):
    order = np.argsort(-scores, kind="stable")
    wanted = math.ceil(recall * labels.sum() - 1e-9)
    place = np.searchsorted(np.cumsum(labels[order]), wanted)
    return scores[order][place]


def evaluate(scores, labels, threshold):
    both = np.sum((scores >= threshold) * labels)
    return both / np.count_nonzero(scores >= threshold), both / np.count_nonzero(labels)


def train_filter(texts, labels, groups, num_buckets, seed, l2, recall):
    out = {group for group in groups if not bucket(group, seed, HELD_OUT)}
    x = np.array([features(text, num_buckets, seed) for text in texts])
    there = np.array([group in out for group in groups])
    w, b = fit(x[there == 0], labels[there == 0], l2)
    scores = x @ w + b
    return w, float(b), choose_threshold(scores[there], labels[there], recall)


def keep(texts, weights, bias, threshold, seed):
    scores = [sum(weights * features(text, weights.size, seed)) + bias for text in texts]
    return ~(np.array(scores) < threshold)
