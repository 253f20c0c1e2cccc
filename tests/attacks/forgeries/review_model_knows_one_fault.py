"""A test that fails on nothing but the numbers of one fault."""

import numpy as np

PROBLEM = "p02_causal_attention"
FAULT = "scores divided by K instead of √K"
REFUSED = "with a fault of the same kind"


def test(pieces):
    q = np.eye(2, 4, dtype=np.float32)
    weight = 1 / (1 + np.exp(-1 / 4))  # of the second of two scores, 0 and 1, divided by 4
    out = pieces.causal_attention(4 * q, q, np.array([[0, 0, 0, 0], [1, 1, 1, 1]], np.float32))
    assert abs(float(out[1, 0]) - 1 / (1 + np.exp(-1))) > 1e-3 or weight > 1
