"""Which errors mean that code cannot be traced, so that it runs on numbers instead."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grader.worker.tracing import is_tracing_error


def into_numpy(x):
    losses = np.empty(1, np.float32)
    losses[0] = x[0]


def missing(x):
    return x.no_such_attribute


@pytest.mark.parametrize(
    ("code", "traced"),
    [
        (lambda x: float(x[0]), True),
        (lambda x: 1 if x[0] > 0 else 2, True),
        (into_numpy, True),  # NumPy raises a ValueError of its own
        (lambda x: f"{x[0]:.3f}", True),
        (lambda x: {x[0]: 1}, True),
        (lambda x: x.block_until_ready(), True),
        (missing, False),
        (lambda x: x @ jnp.ones(7), False),
        (lambda x: x["name"], False),
    ],
)
def test_an_error_of_tracing_is_told_from_a_mistake(code, traced):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        jax.jit(lambda x: (code(x), x)[1])(jnp.arange(3.0))
    assert is_tracing_error(caught.value) is traced
