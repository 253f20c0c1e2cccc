"""A test that reads the state of an optimizer by the name that it has in the reference."""

import numpy as np

PROBLEM = "p09_adamw"
FAULT = "wrong sign of the update"
REFUSED = "Your test fails on a right program"


def test(pieces):
    optimizer = pieces.adamw(0.1, 0.9, 0.99, 1e-8, 0.0)
    state = optimizer.init({"w": np.ones(2, np.float32)})
    updates, state = optimizer.update({"w": np.ones(2, np.float32)}, state, {"w": np.ones(2, np.float32)})
    assert int(state.count) == 1
    assert updates["w"][0] < 0
