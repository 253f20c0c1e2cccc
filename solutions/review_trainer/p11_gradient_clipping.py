"""Compares clipped gradients and their norm with the formula: long, short, just short enough, and zero."""

import numpy as np


def test(pieces):
    draws = np.random.default_rng(0)
    kernel, bias, gain = (draws.normal(size=shape).astype(np.float32) for shape in ((3, 2), (4,), ()))
    leaves = [kernel, bias, gain]
    norm = np.sqrt(sum((leaf.astype(np.float64) ** 2).sum() for leaf in leaves))
    for factor, limit in (
        (1, norm / 3), (1, norm / 1.2), (1, norm * 5), (1, norm * 1.01), (20, 0.25), (20, 3.0), (0, 0.7), (0.01, 0.7),
    ):  # fmt: skip
        first, second, third = (np.float32(factor) * leaf for leaf in leaves)
        tree = {"layer": [first, {"bias": second}], "gain": third}
        clipped, found = pieces.clip_by_global_norm(tree, float(limit))
        length = factor * norm
        share = min(1.0, limit / length) if length else 1.0
        assert np.shape(found) == ()
        assert np.allclose(found, length, rtol=1e-4), (factor, limit)
        pairs = [
            (clipped["layer"][0], tree["layer"][0]),
            (clipped["layer"][1]["bias"], tree["layer"][1]["bias"]),
            (clipped["gain"], tree["gain"]),
        ]
        for got, before in pairs:
            assert np.shape(got) == np.shape(before)
            assert np.allclose(got, share * before, rtol=1e-4, atol=1e-7), (factor, limit)
            assert share < 1 or np.array_equal(got, before), (factor, limit)
