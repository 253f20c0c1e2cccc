"""A test that fails whatever it is given, and not by an assertion."""

PROBLEM = "p11_gradient_clipping"
FAULT = "norm reported after clipping"
REFUSED = "Your test fails on a right program"


def test(pieces):
    raise KeyError("always")
