"""The own GELU has the values of JAX's, and a gradient that is at least as exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.layers import gelu


def slope_in_float64(x: np.ndarray) -> np.ndarray:
    inner = (2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)
    inner_slope = (2 / np.pi) ** 0.5 * (1 + 3 * 0.044715 * x**2)
    return (1 + np.tanh(inner)) / 2 + x * inner_slope / (2 * np.cosh(np.clip(inner, -300, 300)) ** 2)


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=9), st.floats(-10, 10, width=32))
def test_the_value_is_that_of_jax_and_the_gradient_is_exact(xs: list[float], dout: float) -> None:
    x = jnp.array(xs)
    out, pull = jax.vjp(gelu, x)
    np.testing.assert_array_equal(out, jax.nn.gelu(x))
    expected = dout * slope_in_float64(np.array(x, np.float64))
    # float32 has 24 bits. Where the slope passes through 0, its two terms cancel.
    np.testing.assert_allclose(pull(jnp.full(len(xs), dout))[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_the_gradient_is_rounded_once(dtype: jnp.dtype) -> None:
    x = jnp.linspace(-6, 6, 201).astype(dtype)
    slope = jax.vjp(gelu, x)[1](jnp.ones_like(x))[0]
    assert slope.dtype == dtype
    exact = slope_in_float64(np.asarray(x, np.float64))
    # Below its normal numbers, float16 has steps of 6e-8.
    np.testing.assert_allclose(np.asarray(slope, np.float64), exact, rtol=float(jnp.finfo(dtype).eps), atol=2e-7)


def test_the_backward_pass_keeps_the_input_alone() -> None:
    x = jnp.linspace(-2, 2, 64)
    _, pull = jax.vjp(gelu, x)
    assert [leaf.size for leaf in jax.tree.leaves(pull)] == [64]
