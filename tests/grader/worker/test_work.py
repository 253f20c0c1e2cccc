"""Work is counted as the program runs: loops as often as they turn, branches as they are taken."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from grader.worker import stablehlo, work
from grader.worker.tracing import Given, trace

pytestmark = pytest.mark.fast

N, D = 5, 3  # rounds of a loop, and the width of a matrix that each of them multiplies
ONE = D * D * D


def multiplications(function: Callable[[jax.Array], jax.Array]) -> int:
    program = trace(lambda x: {"output": function(x)}, Given("case", "x", (D, D), "float32"))
    return work.multiplications(stablehlo.parsed(program.module))


def square_if(taken: jax.Array, x: jax.Array) -> jax.Array:
    return lax.cond(taken, lambda x: x @ x, lambda x: x, x)


def every(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, N, lambda i, x: x @ x, x)


def triangle(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, N, lambda i, x: lax.fori_loop(0, i + 1, lambda j, x: x @ x, x), x)


def branches(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, N, lambda i, x: square_if((i % 3 == 1) | (i // 2 == 2), x), x)


def listed(x: jax.Array) -> jax.Array:
    pairs = jnp.array(np.argwhere(np.tri(N)))
    return lax.scan(lambda x, pair: (square_if(pair[0] == pair[1], x), None), x, pairs)[0]


def counted_down(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda state: state[0] > 0, lambda state: (state[0] - 2, state[1] @ state[1]), (9, x))[1]


def wasted(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, N, lambda i, x: jnp.where(i < 1, x @ x, x), x)


def batched(x: jax.Array) -> jax.Array:
    return jax.vmap(lambda i: x @ (x + i))(jnp.arange(4.0)).sum(0)


def nested_jit(x: jax.Array) -> jax.Array:
    square = jax.jit(lambda x: x @ x)
    return square(square(x))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (every, N), (triangle, N * (N + 1) // 2), (branches, 2), (listed, N), (counted_down, 5), (wasted, N), (batched, 4),
        (nested_jit, 2),
    ],
)  # fmt: skip
def test_products_count_as_often_as_they_run(function: Callable[[jax.Array], jax.Array], expected: int):
    assert multiplications(function) == expected * ONE


def test_other_multiplications_count_by_element():
    assert multiplications(lambda x: (x * x + x) / (1 + x)) == 2 * D * D
    assert multiplications(lambda x: jnp.einsum("ab,b->a", x, x[0])) == D * D


def test_a_loop_that_depends_on_the_numbers_is_not_counted():
    def until_large(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda x: x[0, 0] < 1, lambda x: x @ x, x)

    assert multiplications(until_large) == work.UNKNOWN
    assert multiplications(lambda x: lax.while_loop(lambda x: x[0, 0] < 1, lambda x: x + 1, x) @ x) == ONE


def test_a_loop_without_end_is_not_counted():
    assert multiplications(lambda x: lax.while_loop(lambda s: s[0] < 1, lambda s: (s[0], s[1] @ s[1]), (0, x))[1]) == (
        work.UNKNOWN
    )
