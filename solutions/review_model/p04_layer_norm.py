"""Compares the norm with the formula, on ordinary rows, faint ones, distant ones, and rows of other lengths."""

import numpy as np


def test(pieces):
    for rows, width, size, offset, epsilon in (
        (5, 4, 1.0, 0.5, 1e-5),
        (3, 7, 2.0, -1.0, 0.3),
        (4, 4, 1.0, 0.0, 1e-2),
        (3, 4, 1e-3, 0.0, 1e-6),
        (1, 6, 1e-4, 0.0, 1e-5),
        (3, 8, 1.0, 300.0, 1e-5),
    ):
        draws = np.random.default_rng(rows)
        x = (offset + size * draws.normal(size=(rows, width))).astype(np.float32)
        scale, bias = (draws.normal(size=width).astype(np.float32) for _ in range(2))
        wide = x.astype(np.float64)
        centered = wide - wide.mean(-1, keepdims=True)
        expected = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + epsilon) * scale + bias
        found = np.asarray(pieces.layer_norm(x, scale, bias, epsilon))
        assert found.shape == x.shape
        assert np.allclose(found, expected, rtol=2e-3, atol=2e-3), (rows, width, epsilon)
