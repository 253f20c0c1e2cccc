"""A test that compares with the initial parameters of the reference, which other styles draw in another order."""

import numpy as np

PROBLEM = "p03_causal_mha"
FAULT = "division by √K missing"
REFUSED = "Your test fails on a right program"


def test(pieces):
    layer = pieces.CausalMHA(4, 2, rngs=0)
    layer.set_parameters({name: 3 * value for name, value in layer.parameters().items()})
    out = np.asarray(layer(np.arange(8, dtype=np.float32).reshape(2, 4)))
    assert np.allclose(out[1], [-10.2, -4.1, 0.3, 3.8], atol=0.1)
