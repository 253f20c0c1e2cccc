"""Trains a small model for four steps, and compares losses and parameters with Adam in NumPy, by finite differences."""

import numpy as np

V, D, F = 5, 3, 4
PAD = 0


def loss(p, batch):
    total = 0.0
    for ids in batch:
        hidden = np.maximum(p["embed.embedding"][ids] @ p["ff.kernel"] + p["ff.bias"], 0)
        logits = (hidden @ p["head.kernel"] + p["head.bias"]) / 2.0  # the model's temperature
        top = logits.max(-1, keepdims=True)
        log = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
        counts = ids[1:] != PAD
        total += -(log[np.arange(len(ids) - 1), ids[1:]] * counts).sum() / max(counts.sum(), 1)
    return total / len(batch)


def gradient(p, batch):
    found = {}
    for name, value in p.items():
        found[name] = np.zeros_like(value)
        for place in np.ndindex(value.shape):
            sides = []
            for step in (1e-5, -1e-5):
                moved = {key: each.copy() for key, each in p.items()}
                moved[name][place] += step
                sides.append(loss(moved, batch))
            found[name][place] = (sides[0] - sides[1]) / 2e-5
    return found


def test(pieces):
    draws = np.random.default_rng(0)
    model = pieces.toy_model(V, D, F)
    model.set_parameters(
        {name: draws.normal(size=value.shape).astype(np.float32) for name, value in model.parameters().items()}
    )
    p = {name: value.astype(np.float64) for name, value in model.parameters().items()}
    optimizer = pieces.make_optimizer(model, 0.05)
    first, second = ({name: np.zeros_like(value) for name, value in p.items()} for _ in range(2))
    for step in range(1, 5):
        batch = draws.integers(0, V, size=(3, 6)).astype(np.int32)
        batch[0, 3:] = PAD
        if step % 2:
            batch[1, 1:] = PAD  # a story without a target
        found = np.asarray(pieces.train_step(model, optimizer, batch, PAD))
        assert found.shape == ()
        assert np.allclose(found, loss(p, batch), rtol=1e-3, atol=1e-3), step
        for name, slope in gradient(p, batch).items():
            first[name] = 0.9 * first[name] + 0.1 * slope
            second[name] = 0.999 * second[name] + 0.001 * slope**2
            mean, square = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
            p[name] = p[name] - 0.05 * mean / (np.sqrt(square) + 1e-8)
    for name, value in model.parameters().items():
        assert np.allclose(value, p[name], rtol=1e-2, atol=2e-2), name
    before = model.parameters()
    still = np.full((2, 4), PAD, np.int32)
    fresh = pieces.make_optimizer(model, 0.05)
    pieces.train_step(model, fresh, still, PAD)
    for name, value in model.parameters().items():
        assert np.array_equal(value, before[name]), name
