"""Compares the loss with the formula: with padding, without any target, and for large logits."""

import numpy as np


def test(pieces):
    draws = np.random.default_rng(0)
    for size, ids, pad, vocabulary in (
        (1.0, [3, 1, 4, 1, 2], 0, 5),
        (1.0, [3, 1, 4, 0, 0], 0, 5),
        (1.0, [0, 1, 4, 2, 2], 2, 5),
        (200.0, [3, 1, 4, 1, 2], 0, 5),
        (1.0, [2, 0, 0, 0], 0, 5),
        (1.0, [2], 0, 5),
        (1.0, [1, 0, 2, 4, 3, 0], 0, 5),
        (1.0, [1, 32_999], 0, 33_000),
    ):
        ids = np.array(ids, np.int32)
        logits = (size * draws.normal(size=(len(ids), vocabulary)) + 3).astype(np.float32)
        top = logits.max(-1, keepdims=True)
        log = logits - top - np.log(np.exp((logits - top).astype(np.float64)).sum(-1, keepdims=True))
        losses = -log[np.arange(len(ids) - 1), ids[1:]]
        counts = ids[1:] != pad
        expected = (losses * counts).sum() / max(counts.sum(), 1)
        found = np.asarray(pieces.next_token_loss(logits, ids, pad))
        assert found.shape == ()
        assert np.allclose(found, expected, rtol=1e-3, atol=1e-4), (ids, pad)
