"""The cost of a program is what ran: loops as often as they turned, branches as they were taken, functions in each
call."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import NamedSharding, PartitionSpec

from grader.problem import Case
from grader.worker import cost
from grader.worker.counting import UncountableError
from grader.worker.measures import MEASURES, Execution
from grader.worker.placement import mesh_of
from grader.worker.tracing import Given, given, trace
from grader.worker.witness import Witness

pytestmark = pytest.mark.fast
jax.config.update("jax_num_cpu_devices", 8)  # for this process, which has not used JAX yet

N, D = 5, 3  # turns of a loop, and the width of a matrix that each of them multiplies
PRODUCT = 2 * D**3
X = np.eye(D, dtype=np.float32) * 2


def execution(function: Callable[..., Any], *arrays: Any) -> Execution:
    """One run of a function on these arrays."""
    case = Case({f"x{number}": np.asarray(array) for number, array in enumerate(arrays)})
    program = trace(lambda *arrays: {"output": function(*arrays)}, *(given(case, name) for name in case.values))
    return Execution(Witness()._compile(program), list(case.values.values()), case)


def costs(function: Callable[..., Any], *arrays: Any) -> dict[str, int]:
    """The cost of one run of a function, by the name of the operation."""
    found: dict[str, int] = {}
    for run, total in execution(function, *arrays).costs:
        name = run.operation.name.partition(".")[2]
        found[name] = found.get(name, 0) + total
    return found


def square_if(taken: Any, x: Any) -> Any:
    return lax.cond(taken, lambda x: x @ x, lambda x: x, x)


def triangle(x: Any, n: Any) -> Any:
    return lax.fori_loop(0, n, lambda i, x: lax.fori_loop(0, i + 1, lambda j, x: x @ x, x), x)


def nested_calls(x: Any) -> Any:
    square = jax.jit(lambda x: x @ x)
    return jax.jit(lambda x: square(square(x)))(square(x))


def loop_in_a_function(x: Any, n: Any) -> Any:
    @jax.jit
    def power(x: Any, n: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, x: x @ x, x)

    return power(power(x, n), n + 1)


def switch(x: Any, i: Any) -> Any:
    return lax.switch(i, [lambda x: x, lambda x: x @ x, lambda x: x @ x @ x], x)


def in_the_condition(x: Any) -> Any:
    return lax.while_loop(lambda state: (state[1] @ state[1])[0, 0] < 100, lambda s: (s[0], s[1] @ s[1]), (0, x))[1]


@pytest.mark.parametrize(
    ("function", "arrays", "products"),
    [
        (lambda x: lax.fori_loop(0, N, lambda i, x: x @ x, x), (X,), N),
        (lambda x, n: lax.fori_loop(0, n, lambda i, x: x @ x, x), (X, np.int32(N)), N),
        (lambda x, n: lax.fori_loop(0, n, lambda i, x: x @ x, x), (X, np.int32(0)), 0),
        (triangle, (X, np.int32(N)), N * (N + 1) // 2),
        (lambda x: lax.while_loop(lambda x: x[0, 0] < 200, lambda x: x @ x, x), (X,), 3),  # 2, 4, 16, 256
        (in_the_condition, (X,), 2 + 3),  # the condition runs once more than the body
        (lambda x: lax.scan(lambda x, i: (square_if(i % 3 == 1, x), None), x, jnp.arange(N))[0], (X,), 2),
        (lambda x: square_if(x[0, 0] > 1, x), (X,), 1),
        (lambda x: square_if(x[0, 0] > 3, x), (X,), 0),
        (switch, (X, np.int32(2)), 2),
        (nested_calls, (X,), 3),
        (loop_in_a_function, (X, np.int32(N)), N + N + 1),
        (lambda x: jax.vmap(lambda i: x @ (x + i))(jnp.arange(4.0)).sum(0), (X,), 4),
        (
            lambda x: lax.fori_loop(0, N, lambda i, x: jnp.where(i < 1, x @ x, x), x),
            (X,),
            N,
        ),  # computed, then thrown away
    ],
)
def test_products_count_as_often_as_they_run(function: Callable[..., Any], arrays: tuple[Any, ...], products: int):
    assert costs(function, *arrays).get("dot_general", 0) == products * PRODUCT


def test_batched_loops_count_the_turns_of_the_longest():
    def power(x: Any, n: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, x: x @ x, x)

    assert costs(jax.vmap(power, (None, 0)), X, np.array([1, 4], np.int32))["dot_general"] == 4 * 2 * PRODUCT


def test_counters_hold_the_turns_of_a_long_loop():
    """2^31 turns take XLA a few seconds, and a counter below 0 would take all other work away."""
    counters = execution(lambda x: lax.fori_loop(0, N, lambda i, x: x @ x, x), X).counters
    assert counters.tolist() == [N]
    assert counters.dtype == np.int64


def test_a_program_that_returns_other_numbers_where_it_is_counted_is_refused():
    run, other = (execution(partial(lax.fori_loop, 0, N, body), X) for body in (lambda i, x: x @ x, lambda i, x: x + x))
    np.testing.assert_array_equal(run.outputs[0], lax.fori_loop(0, N, lambda i, x: x @ x, X))
    vars(run.compiled)["counting"] = other.compiled.counting
    assert run.counters.tolist() == [N]
    with pytest.raises(UncountableError, match="returns other numbers"):
        _ = run.outputs


def test_what_a_program_says_to_xla_is_removed():
    def told(x: Any) -> Any:
        with set_xla_metadata(inlineable="false", note="{ from the program }"):
            return jax.jit(lambda x: x @ x)(x)

    run = execution(told, X)
    assert b"from the program" in run.compiled.program.module
    assert "from the program" not in run.compiled.text
    assert "inlineable" not in run.compiled.text


def reduced(body: Callable[..., Any], x: Any) -> Any:
    return lax.reduce(x, jnp.float32(1), body, (1,))


IMAGE, KERNEL = np.ones((1, 2, 6, 7), np.float32), np.ones((4, 2, 3, 3), np.float32)
ROW = np.arange(8, dtype=np.float32)
COMPLEX = np.ones((2, 3), np.complex64)


@pytest.mark.parametrize(
    ("function", "arrays", "expected"),
    [
        (lambda x: (x * x + x) / x, (X,), 3 * D * D),
        (lambda x: jnp.exp(x), (X,), D * D),
        (lambda x: x[::-1].T.reshape(-1), (X,), 0),
        (lambda x: jnp.einsum("ab,b->a", x, x[0]), (X,), 2 * D * D),
        (lambda i: i * i, (np.arange(7, dtype=np.int32),), 7),
        (lambda z: z * z, (COMPLEX,), 6 * 6),
        (lambda z: z @ z.T, (COMPLEX,), 8 * 2 * 3 * 2),
        (partial(reduced, lambda a, b: a * b), (X,), D * D),
        (partial(reduced, lambda a, b: a * b + a), (X,), 2 * D * D),
        (lambda x: lax.reduce_window(x, 0.0, lax.add, (3,), (1,), "VALID"), (ROW,), 6 * 3),
        (lambda x: jnp.cumsum(x), (ROW,), 8 * 3),
        # As long as its axis, but not cumulative.
        (lambda x: lax.reduce_window(x, 0.0, lax.add, (8,), (1,), ((3, 4),)), (ROW,), 8 * 8),
        (lambda x: lax.reduce_window(x, 0.0, lambda a, b: a * b + b, (8,), (1,), ((7, 0),)), (ROW,), 8 * 8 * 2),
        (lambda x: jnp.cumprod(x), (ROW,), 8 * 3),
        (lambda x: lax.sort(x[None], dimension=1, is_stable=False), (np.arange(8, dtype=np.int32),), 8 * 3),
        (lambda x: lax.sort((x, -x, x), is_stable=False)[1], (np.arange(8, dtype=np.int32),), 8 + 8 * 3 + 2 * 8),
        (lambda x: jnp.zeros(4).at[jnp.array([0, 1, 1])].add(x, mode="promise_in_bounds"), (ROW[:3],), 3),
        (lambda x: jnp.zeros(4).at[jnp.array([0, 1, 2])].set(x, mode="promise_in_bounds"), (ROW[:3],), 3),
        (lambda i: jnp.arange(4.0).at[i].get(mode="promise_in_bounds"), (np.int32([0, 3, 3, 1, 2]),), 5),
        (lambda x: lax.dynamic_slice(x, (2,), (3,)), (ROW,), 3),
        (lambda x: lax.dynamic_update_slice(x, x[:3], (2,)), (ROW,), 3),
        (lambda x, k: lax.conv(x, k, (1, 1), "VALID"), (IMAGE, KERNEL), 2 * (4 * 4 * 5) * (2 * 3 * 3)),
        (lambda x: jnp.fft.fft(x), (COMPLEX[0].repeat(4)[:8],), 5 * 8 * 3),
        (lambda x: lax.linalg.cholesky(x, symmetrize_input=False), (X,), D**3 // 3),
    ],
)
def test_the_cost_of_an_operation(function: Callable[..., Any], arrays: tuple[Any, ...], expected: int):
    # Indices that are negative count from the end, which takes a few integers; a failed decomposition gives NaN.
    aside = {"compare", "select", "add", "and"} - {"add" if expected == 3 * D * D else ""}
    found = {name: total for name, total in costs(function, *arrays).items() if name not in aside}
    assert sum(found.values()) == expected, found


def test_every_accepted_operation_is_in_the_table():
    assert cost.is_counted("vhlo.add_v1")
    assert cost.is_counted("vhlo.dot_general_v2")
    for refused in ("vhlo.infeed_v1", "vhlo.rng_v1", "vhlo.dynamic_reshape_v1", "vhlo.add", "func.func", "vhlo.v1"):
        assert not cost.is_counted(refused)


def test_a_loop_in_the_condition_of_a_loop_is_refused():
    def halves(x: Any) -> Any:
        return lax.while_loop(lambda x: lax.fori_loop(0, N, lambda i, s: s / 2, x[0, 0]) < 1, lambda x: x @ x, x)

    with pytest.raises(UncountableError, match="condition of a loop contains a loop"):
        costs(halves, X)


def placed(*axes: str) -> NamedSharding:
    """A sharding over eight devices. Made in a test, because an import must not start JAX: others set its flags
    first."""
    return NamedSharding(mesh_of(8), PartitionSpec(*axes))


def on_eight_devices(function: Callable[..., Any], turns: int, width: int) -> Execution:
    """One run of a function of an array (8, width), each row of which is on a device of its own, and of a number of
    turns."""
    case = Case({"x": np.ones((8, width), np.float32), "n": np.int32(turns)})  # type: ignore[dict-item]
    inputs = Given("case", "x", (8, width), "float32", sharding=placed("data")), Given("case", "n", (), "int32")
    program = trace(lambda x, n: {"output": function(x, n)}, *inputs)
    return Execution(Witness(mesh=(8,))._compile(program), [case.values["x"], case.values["n"]], case)


def executed(function: Callable[..., Any], turns: int) -> dict[str, int]:
    """How often the collectives of a function on eight devices ran, by kind."""
    found: dict[str, int] = {}
    for each in on_eight_devices(function, turns, width=4).collectives:
        found[each.kind] = found.get(each.kind, 0) + int(each.times)
    return found


def summed(x: Any, n: Any) -> Any:
    def on_one_device(x: Any, n: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, y: lax.psum(x + 0 * y, "data"), jnp.zeros_like(x))

    split = PartitionSpec("data")
    return jax.shard_map(
        on_one_device, mesh=mesh_of(8), in_specs=(split, PartitionSpec()), out_specs=split, check_vma=False
    )(x, n)


def gathered(x: Any, n: Any) -> Any:
    def turn(i: Any, x: Any) -> Any:
        whole = lax.with_sharding_constraint(x, placed())
        return lax.with_sharding_constraint(whole * 2, placed("data"))

    return lax.fori_loop(0, n, turn, x)


@pytest.mark.parametrize(("function", "kind"), [(summed, "all-reduce"), (gathered, "all-gather")])
@pytest.mark.parametrize("turns", [1, 5])
def test_collectives_count_as_often_as_they_run(function: Callable[..., Any], kind: str, turns: int):
    assert executed(function, turns) == {kind: turns}


@pytest.mark.parametrize(
    ("function", "measured"),
    [
        (summed, {"all_reduce": 64, "written": 64}),  # a row of 16 numbers
        (gathered, {"all_gather": 512}),  # all rows; the code names no collective
    ],
)
@pytest.mark.parametrize("turns", [1, 5])
def test_the_bytes_of_collectives_count_as_often_as_they_run(
    function: Callable[..., Any], measured: dict[str, int], turns: int
):
    found = MEASURES["exchanged"](on_eight_devices(function, turns, width=16))
    expected = {name: turns * size for name, size in measured.items()}
    if turns > 1:
        expected["in_loops"] = max(expected.values())
    assert {name: int(size) for name, size in found.items() if size} == expected


def test_a_function_counts_in_each_call_and_a_loop_once_in_the_size_of_a_program():
    def size(calls: int) -> int:
        square = jax.jit(lambda x: lax.fori_loop(0, N, lambda i, x: x @ x, x))

        def program(x: Any) -> Any:
            for _ in range(calls):
                x = square(x)
            return x

        return int(MEASURES["inlined_operations"](execution(program, X)))

    assert size(3) - size(2) == size(2) - size(1) > 5


@pytest.mark.parametrize("left_side", [True, False])
def test_a_triangular_solve_counts_both_of_its_matrices(left_side: bool) -> None:
    triangle, other = (
        np.tril(np.ones((7, 2, 2), np.float32)),
        np.ones((7, 2, 50) if left_side else (7, 50, 2), np.float32),
    )
    found = costs(lambda a, b: lax.linalg.triangular_solve(a, b, left_side=left_side, lower=True), triangle, other)
    assert found["custom_call"] == 7 * 2 * 2 * 50


def test_a_number_of_64_bits_counts_as_several() -> None:
    def product(x: Any) -> Any:
        enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
        with enable(True):
            wide = lax.convert_element_type(x, jnp.int64)
            return lax.convert_element_type(wide @ wide, jnp.float32)

    assert costs(product, X)["dot_general"] == 4 * PRODUCT


def test_an_operation_on_64_bits_is_wide_also_where_its_result_is_not() -> None:
    """A comparison, and a conversion to fewer bits."""

    def compared(x: Any) -> Any:
        enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
        with enable(True):
            wide = lax.convert_element_type(x, jnp.int64)
            return lax.convert_element_type(wide < wide * wide, jnp.float32) + lax.convert_element_type(
                wide, jnp.float32
            )

    found = costs(compared, X)
    assert found["compare"] == 4 * X.size
    assert found["convert"] == 4 * X.size + X.size + 4 * X.size, "to 64 bits, from a truth value, and from 64 bits"


@pytest.mark.parametrize("turns", [0, 2, 7])
def test_operations_count_as_often_as_they_are_executed(turns: int) -> None:
    """A product in each turn, the counter of the turns and its comparison, which is made once more; and what stands
    outside."""
    run = execution(lambda x, n: lax.fori_loop(0, n, lambda i, x: x @ x, x) + 1, X, np.int32(turns))
    assert MEASURES["executed"](run) == 3 * turns + 2
