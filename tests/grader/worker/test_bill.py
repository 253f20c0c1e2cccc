"""The traffic and the longest chain of small programs, counted by hand."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grader.problem import Case
from grader.worker.tracing import Given, trace
from grader.worker.witness import Witness

pytestmark = pytest.mark.fast


def figures(function: Any, **shapes: tuple[int, ...]) -> dict[str, int]:
    program = trace(
        lambda *arrays: {"out": function(*arrays)},
        *(Given("case", name, shape, jnp.float32) for name, shape in shapes.items()),
    )
    case = Case({name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    found = Witness().run(program, case, ["bill"])["program.bill"]
    return json.loads(found.tobytes())["figures"]


def traffic(function: Any, **shapes: tuple[int, ...]) -> tuple[int, int]:
    found = figures(function, **shapes)
    return found["read_bytes"], found["written_bytes"]


def test_elementwise_operations_are_one_pass():
    assert traffic(lambda x: (x * 2 + 1) * x, x=(4, 8)) == (4 * 32, 4 * 32)
    assert figures(lambda x: (x * 2 + 1) * x, x=(4, 8))["elementwise"] == 3 * 32


def test_a_product_reads_and_writes_memory():
    found = traffic(lambda x, y: x @ y + 1, x=(4, 8), y=(8, 2))
    assert found == (4 * (32 + 16) + 4 * 8, 4 * 8 + 4 * 8), "the product, and then the sum"


def test_a_sum_reads_what_it_is_computed_from():
    assert traffic(lambda x: jnp.sum(x * x, axis=1), x=(4, 8)) == (4 * 32, 4 * 4)


def test_a_jitted_function_costs_what_its_operations_cost():
    double = jax.jit(lambda x: x * 2)
    assert figures(lambda x: double(double(x)) + 1, x=(3,)) | {"operations": 0, "temporary_bytes": 0} == figures(
        lambda x: x * 2 * 2 + 1, x=(3,)
    ) | {"operations": 0, "temporary_bytes": 0}


def test_a_loop_counts_each_of_its_turns():
    found = figures(lambda x: jax.lax.fori_loop(0, 5, lambda _, y: y * 2, x), x=(16,))
    assert found["chain"] == 5
    assert found["elementwise"] == 5 * 16 + 5 + 6, "the numbers, the counter, and its comparison at each turn"
    assert found["read_bytes"] == 5 * (4 * 16 + 4), "the numbers and the counter"
    assert found["carried_bytes"] == 4 + 4 * 16


def test_a_row_that_is_looked_up_is_read_alone():
    read, written = traffic(lambda x: jax.lax.dynamic_slice_in_dim(x, jnp.int32(x[0, 0]), 1), x=(1000, 4))
    assert read < 100
    assert written == 16


def test_a_branch_that_is_not_taken_costs_nothing():
    def either(x: Any) -> Any:
        return jax.lax.cond(x[0] > 0, lambda y: y * 2, lambda y: y @ jnp.ones((64, 64)), x)

    assert figures(either, x=(64,))["products"] == 0


def peak(function: Any, **shapes: tuple[int, ...]) -> int:
    return figures(function, **shapes)["peak_bytes"]


def test_an_array_takes_the_place_of_one_that_nothing_needs():
    matrix = 4 * 64 * 64
    assert peak(lambda x: jnp.tanh(x @ x) + 1, x=(64, 64)) == matrix, "computed where it is needed, in its place"
    assert peak(lambda x: (x @ x) @ x, x=(64, 64)) == 2 * matrix
    assert peak(lambda x: (lambda y: (y @ x) * y)(x @ x), x=(64, 64)) == 2 * matrix


def test_what_a_loop_carries_has_one_place():
    turns = lambda step: lambda x: jax.lax.fori_loop(0, 5, lambda _, y: step(y, x), jnp.ones_like(x))  # noqa: E731
    counter, matrix = 4, 4 * 64 * 64
    assert peak(turns(lambda y, x: y * x), x=(64, 64)) == matrix + counter
    assert peak(turns(lambda y, x: y @ x), x=(64, 64)) == 2 * matrix + counter
    assert peak(turns(lambda y, x: y.at[0].set(x[1])), x=(64, 64)) == matrix + counter


def test_the_arrays_of_a_branch_end_with_it():
    def either(x: Any) -> Any:
        return jax.lax.cond(x[0, 0] > 0, lambda y: (y @ y) @ y, lambda y: y, x) @ x

    matrix = 4 * 64 * 64
    assert 2 * matrix <= peak(either, x=(64, 64)) < 2.1 * matrix


def test_what_a_loop_only_reads_is_there_before_its_first_turn():
    def loop(x: Any) -> Any:
        y = jnp.tanh(jnp.tanh(jnp.tanh(x)))
        return jax.lax.fori_loop(0, 5, lambda _, z: z + y, x)

    assert figures(loop, x=(16,))["chain"] == 3 + 5
