"""Guards momentum: good steps are its own, bad ones are zeros and leave no trace; and the first bad leaf is named."""

import numpy as np


def test(pieces):
    rate, momentum = 0.5, 0.9
    guard = pieces.finite_guard(pieces.sgd(rate, momentum))
    draws = np.random.default_rng(0)
    tree = {"layer": [np.ones((3, 2), np.float32), np.ones(2, np.float32)], "gain": np.float32(1)}
    state, trace = guard.init(tree), [np.zeros((3, 2)), np.zeros(2), np.zeros(())]
    faults = [None, (1, np.nan), None, (0, np.inf), (2, -np.inf), None, (0, np.nan), None]
    for fault in faults:
        leaves = [draws.normal(size=each.shape).astype(np.float32) for each in trace]
        if fault:
            place, value = fault
            leaves[place] = np.array(leaves[place])
            leaves[place][(0,) * leaves[place].ndim] = value
        else:
            trace = [momentum * old + new for old, new in zip(trace, leaves, strict=True)]
        updates, state = guard.update({"layer": leaves[:2], "gain": leaves[2]}, state, tree)
        found = [*updates["layer"], updates["gain"]]
        for got, old in zip(found, trace, strict=True):
            expected = np.zeros(old.shape) if fault else -rate * old
            assert np.shape(got) == old.shape
            assert np.allclose(got, expected, rtol=1e-4, atol=1e-6), fault
    big = {"layer": [np.full((3, 2), 3e38, np.float32), np.full(2, -3e38, np.float32)], "gain": np.float32(1)}
    plain = pieces.finite_guard(pieces.sgd(1e-3))
    updates, _ = plain.update(big, plain.init(tree), tree)
    assert np.allclose(updates["layer"][0], -3e35, rtol=1e-3)
    steep = pieces.finite_guard(pieces.sgd(1e3))  # the gradients are finite, and its updates are not
    updates, _ = steep.update(big, steep.init(tree), tree)
    assert np.isneginf(updates["layer"][0]).all()
    assert pieces.first_nonfinite(tree) is None
    assert pieces.first_nonfinite(big) is None
    for bad in (np.nan, np.inf, -np.inf):
        broken = {"layer": [np.ones((3, 2), np.float32), np.full(2, bad, np.float32)], "gain": np.float32(1)}
        assert pieces.first_nonfinite(broken) == "['layer'][1]"
        assert pieces.first_nonfinite({**broken, "gain": np.float32(bad)}) == "['gain']"
    for place in (2, 10):
        leaves = [np.ones(2, np.float32) for _ in range(12)]
        for bad in (place, 11):
            leaves[bad] = np.array([1, np.nan], np.float32)
        assert pieces.first_nonfinite({"blocks": leaves}) == f"['blocks'][{place}]"
    leaves = [np.array([1, np.inf], np.float32) if place in (2, 10) else np.ones(1, np.float32) for place in range(12)]
    assert pieces.first_nonfinite(leaves) == "[2]"
