"""Compares attention with the formula: on ordinary rows, on scores of zero, and on very large and very small ones."""

import numpy as np


def test(pieces):
    for rows, width, scale, shift in (
        (5, 4, 1, 0), (7, 3, 1, 0), (3, 8, 30, 0), (1, 2, 1, 0), (4, 3, 0, 0), (4, 4, 0.01, 100),
    ):  # fmt: skip
        draws = np.random.default_rng(rows)
        q, k, v = (draws.normal(size=(rows, width)).astype(np.float32) for _ in range(3))
        q, k = scale * q - shift, scale * k + shift
        scores = q.astype(np.float64) @ k.T / np.sqrt(width)
        scores[~np.tril(np.ones((rows, rows), bool))] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        expected = weights / weights.sum(-1, keepdims=True) @ v
        found = np.asarray(pieces.causal_attention(q, k, v))
        assert found.shape == v.shape
        assert np.allclose(found, expected, rtol=1e-2, atol=1e-2), (rows, width)
