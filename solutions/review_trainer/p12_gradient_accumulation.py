"""Compares loss, gradients and norm with those of the whole batch, for several microbatches and limits."""

import numpy as np

V = 4


def whole(table, ids):
    before, targets = ids[:, :-1].reshape(-1), ids[:, 1:].reshape(-1)
    logits = table[before]
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    counts = targets != 0
    loss = -(np.log(weights[np.arange(len(targets)), targets]) * counts).sum()
    slope = (weights - np.eye(V)[targets]) * counts[:, None]
    gradient = np.zeros_like(table)
    np.add.at(gradient, before, slope)
    return loss / counts.sum(), gradient / counts.sum()


def test(pieces):
    draws = np.random.default_rng(0)
    table = (2 * draws.normal(size=(V, V))).astype(np.float32)
    for rows, parts, limit in ((6, 3, 100.0), (6, 2, 0.05), (4, 1, 100.0), (4, 4, 0.1), (6, 3, 0.5)):
        ids = draws.integers(1, V, size=(rows, 5)).astype(np.int32)
        ids[0, 1:] = 0  # the first microbatch has fewer targets, or none
        loss, gradient = whole(table.astype(np.float64), ids)
        norm = np.sqrt((gradient**2).sum())
        found, gradients, length = pieces.accumulated_gradients(pieces.loss_sum, {"table": table}, ids, parts, limit)
        assert np.shape(found) == np.shape(length) == ()
        assert np.allclose(found, loss, rtol=1e-3, atol=1e-5), (rows, parts)
        assert np.allclose(length, norm, rtol=1e-3, atol=1e-5), (rows, parts)
        assert np.allclose(gradients["table"], gradient * min(1, limit / norm), rtol=1e-3, atol=1e-5), (rows, parts)
