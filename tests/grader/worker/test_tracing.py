"""What traced code may do: need numbers, and donate buffers."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grader.worker.pytrees import BadOutputError
from grader.worker.tracing import Given, is_tracing_error, trace


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


donating = partial(jax.jit, donate_argnums=0)
increased = donating(lambda x: x + 1)
rounded = donating(lambda x: x.astype(jnp.int8))
summed = donating(lambda x: x.sum())
kept = donating(lambda x: (x, x.sum()))
added = donating(lambda x, y: x + y)
ignoring = donating(lambda x, y: y + 1)
both = jax.jit(lambda x, y: (x + 1, y + 1), donate_argnums=(0, 1))


@pytest.mark.parametrize(
    ("code", "fails"),
    [
        (lambda x: increased(increased(x)), False),
        (lambda x: increased(x) + x, True),
        (lambda x: (x + 1) + increased(x), False),
        (lambda x: kept(x)[0] + 1, False),
        (lambda x: kept(x)[1] + x, True),
        (lambda x: ignoring(x, 2 * x) + x, False),  # JAX drops arguments that are not needed
        (lambda x: added(x, x), True),
        (lambda x: both(x, 2 * x)[0] + 1, False),
        (lambda x: both(x, x)[0], True),
        (lambda x: (rounded(x), x + 1)[1], False),  # no result has room for its memory
        (lambda x: (summed(x), x + 1)[1], False),
        (lambda x: jax.jit(lambda x: increased(x) + x)(x), False),  # only the outermost function donates
    ],
)
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_an_array_that_was_donated_fails_where_jax_fails(code, fails):
    def program(x):
        return {"result": code(2 * x)}

    def attempt(run, error):
        try:
            run()
        except error:
            return True
        return False

    assert attempt(lambda: program(jnp.arange(4.0)), (ValueError, RuntimeError)) is fails
    assert attempt(lambda: trace(program, Given("case", "x", (4,), jnp.float32)), BadOutputError) is fails
