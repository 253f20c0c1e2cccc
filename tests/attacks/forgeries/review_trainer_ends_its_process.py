"""A test that ends its own process, so that it fails without a verdict on the program."""

import os

PROBLEM = "p11_gradient_clipping"
FAULT = "norm reported after clipping"
REFUSED = "Your test does not run to its end"


def test(pieces):
    os._exit(1)
