"""The reference of problem 76 agrees with `ml_dtypes` and with exact fractions, and its bound holds."""

import sys
from fractions import Fraction

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from tests.conftest import ROOT

FORMATS = {"e4m3": (ml_dtypes.float8_e4m3fn, 448), "mxfp4": (ml_dtypes.float4_e2m1fn, 6)}


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


def smallest_power(number: Fraction) -> Fraction:
    """The smallest power of two that is at least the number, with whole numbers only."""
    power = Fraction(1)
    while power < number:
        power *= 2
    while power / 2 >= number:
        power /= 2
    return power


@pytest.mark.parametrize("kind", FORMATS)
def test_codes_and_scales_are_those_of_ml_dtypes(kind: str):
    from p76_block_scaling import quantize_blocks

    rng = np.random.default_rng(0)
    x = (rng.standard_normal((40, 64)) * 2.0 ** rng.uniform(-40, 40, (40, 1))).astype("float32")
    x[:3, 0] = [6, 12, 4]  # of which a sixth is a power of two, or is not
    x[3, :32] = 0
    x[4] = np.repeat([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6], 8)  # ties of e2m1
    codes, scales = (np.asarray(each, np.float32) for each in quantize_blocks(jnp.asarray(x), kind))
    dtype, largest = FORMATS[kind]
    for block, code, scale in zip(x.reshape(-1, 32), codes.reshape(-1, 32), scales.ravel(), strict=True):
        exact = Fraction(float(abs(block).max())) / largest or Fraction(1)
        assert scale == pytest.approx(float(smallest_power(exact) if kind == "mxfp4" else exact), rel=1e-6)
        np.testing.assert_array_equal(code, (block / scale).astype(dtype).astype(np.float32))


@pytest.mark.parametrize("kind", FORMATS)
def test_no_product_is_further_off_than_its_bound(kind: str):
    """Also where all numbers of a block are rounded the same way, so that the errors add up."""
    from p76_block_scaling import block_matmul, error_bound

    x, kernel = jax.random.normal(jax.random.key(0), (2, 32, 32))
    pairs = [(x, kernel), (abs(x), abs(kernel)), (jnp.full((32, 32), 0.7).at[0].set(6.0).T, jnp.ones((32, 32)))]
    for x, kernel in pairs:
        error = abs(np.asarray(block_matmul(x, kernel, kind), float) - np.asarray(x, float) @ np.asarray(kernel, float))
        assert (error <= np.asarray(error_bound(x, kernel, kind)) * (1 + 1e-5) + 1e-6).all()
