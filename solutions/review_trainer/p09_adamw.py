"""Compares AdamW with the formula for many updates of a tree, with and without a mask."""

import numpy as np


def test(pieces):
    for rate, b1, b2, epsilon, decay, masked in (
        (0.1, 0.9, 0.99, 1e-8, 0.0, False),
        (0.02, 0.8, 0.95, 0.1, 0.3, False),
        (0.05, 0.9, 0.999, 1e-3, 0.2, True),
    ):
        draws = np.random.default_rng(1)
        shapes = {"kernel": (3, 2), "bias": (2,), "gain": ()}
        p = {name: draws.normal(size=shape).astype(np.float32) + 1 for name, shape in shapes.items()}
        tree = {"layer": {"kernel": p["kernel"], "bias": p["bias"]}, "rest": [p["gain"]]}
        mask = {"layer": {"kernel": True, "bias": False}, "rest": [False]}
        assert pieces.decayed(tree) == mask
        optimizer = pieces.adamw(rate, b1, b2, epsilon, decay, *([pieces.decayed] if masked else []))
        state = optimizer.init(tree)
        mean, square = ({name: np.zeros(shape) for name, shape in shapes.items()} for _ in range(2))
        for step in range(1, 8):
            g = {name: draws.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
            sent = {"layer": {"kernel": g["kernel"], "bias": g["bias"]}, "rest": [g["gain"]]}
            updates, state = optimizer.update(sent, state, tree)
            found = {"kernel": updates["layer"]["kernel"], "bias": updates["layer"]["bias"], "gain": updates["rest"][0]}
            for name, slope in g.items():
                mean[name] = b1 * mean[name] + (1 - b1) * slope
                square[name] = b2 * square[name] + (1 - b2) * slope**2
                move = mean[name] / (1 - b1**step) / (np.sqrt(square[name] / (1 - b2**step)) + epsilon)
                decays = name == "kernel" or not masked
                expected = -rate * (move + decay * p[name] * decays)
                assert np.shape(found[name]) == shapes[name]
                assert np.allclose(found[name], expected, rtol=2e-3, atol=1e-5), (name, step, rate)
    ranks = {"a": np.zeros(3, np.float32), "b": np.zeros((2, 2), np.float32), "c": np.zeros((1, 2, 3), np.float32)}
    assert pieces.decayed({**ranks, "d": np.zeros((), np.float32), "e": np.zeros((1, 1), np.float32)}) == {
        "a": False, "b": True, "c": True, "d": False, "e": True,
    }  # fmt: skip
