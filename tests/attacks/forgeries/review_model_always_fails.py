"""A test that fails whatever it is given."""

PROBLEM = "p02_causal_attention"
FAULT = "scores divided by K instead of √K"
REFUSED = "Your test fails on a right program"


def test(pieces):
    raise AssertionError
