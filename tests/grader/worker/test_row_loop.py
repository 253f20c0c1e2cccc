"""A loop over rows is told from programs that see rows of other turns."""

import jax
import jax.numpy as jnp
import pytest
from jax import export

from grader.worker import row_loop, stablehlo

ROWS, WEIGHT = jnp.ones((6, 3)), jnp.ones((3, 3))
scan, index = jax.lax.scan, jax.lax.dynamic_index_in_dim


def in_turn(body):
    """A program of rows and a weight that is one loop: `body(rows, weight, turn, cache, row, outputs)`."""

    def program(rows, weight):
        def turn(state):
            t, cache, outputs = state
            row = index(rows, t, keepdims=False)
            cache, outputs = body(rows, weight, t, cache, row, outputs)
            return t + 1, cache, outputs

        return jax.lax.while_loop(lambda state: state[0] < len(rows), turn, (0, jnp.zeros(3), jnp.zeros_like(rows)))[2]

    return program


def put(outputs, value, t):
    return jax.lax.dynamic_update_index_in_dim(outputs, value, t, 0)


def step(rows, weight, t, cache, row, outputs):
    cache = cache + row @ weight
    return cache, put(outputs, cache, t)


def of_scan(rows, weight):
    def turn(cache, row):
        cache = cache + row @ weight
        return cache, jnp.tanh(cache)

    return scan(turn, jnp.zeros(3), rows)[1]


def of_scan_with_a_loop_inside(rows, weight):
    def turn(cache, row):
        cache = jax.lax.fori_loop(0, 3, lambda i, x: x @ weight + i, cache + row)
        return cache, jax.jit(jnp.tanh)(cache)

    return jnp.stack(list(scan(turn, jnp.zeros(3), rows)[1]))


def with_the_rows(rows, weight):
    return jnp.stack([of_scan(rows, weight), rows])


IN_ORDER = {
    "a scan": of_scan, "a scan, and the rows": with_the_rows,
    "a scan with a loop inside": of_scan_with_a_loop_inside, "a loop": in_turn(step),
}  # fmt: skip
OUT_OF_ORDER = {
    "no loop": lambda rows, weight: jnp.cumsum(rows @ weight, axis=0),
    "a scan from the end": lambda rows, weight: scan(
        lambda c, x: (c + x @ weight, c), jnp.zeros(3), rows, reverse=True
    )[1],
    "a scan, and the sum of all rows": lambda rows, weight: of_scan(rows, weight) + rows.sum(),
    "two scans": lambda rows, weight: of_scan(of_scan(rows, weight), weight) + of_scan(rows, weight),
    "a scan of what a scan returns": lambda rows, weight: of_scan(of_scan(rows, weight), weight),
    "a sum of what a scan returns": lambda rows, weight: of_scan(rows, weight).sum(0),
    "a function of what a scan returns": lambda rows, weight: total(of_scan(rows, weight).T),
    "rows that were changed": lambda rows, weight: of_scan(rows + 0.5, weight),
    "all rows in each turn": in_turn(lambda rows, weight, t, c, row, out: step(rows, weight, t, c, rows.sum(0), out)),
    "all rows in a function": in_turn(lambda rows, weight, t, c, row, out: step(rows, weight, t, c, total(rows), out)),
    "the next row": in_turn(
        lambda rows, weight, t, c, row, out: step(rows, weight, t, c, index(rows, t + 1, keepdims=False), out)
    ),
    "a row by the cache": in_turn(
        lambda rows, weight, t, c, row, out: step(
            rows, weight, t, c, index(rows, c[0].astype(int), keepdims=False), out
        )
    ),
    "two rows": in_turn(
        lambda rows, weight, t, c, row, out: step(
            rows, weight, t, c, jax.lax.dynamic_slice(rows, (t, 0), (2, 3)).sum(0), out
        )
    ),
    "the next output": in_turn(lambda rows, weight, t, c, row, out: (c + row, put(out, c, t + 1))),
    "outputs as a cache": in_turn(lambda rows, weight, t, c, row, out: (c + row, put(out, out.sum(0) + row, t))),
    "outputs as they come": in_turn(lambda rows, weight, t, c, row, out: (c + row, out.at[0].add(row @ weight))),
    "a copy of all rows": lambda rows, weight: jnp.cumsum(scan(lambda c, x: (c, x + 0.0), 0, rows)[1] @ weight, axis=0),
    "an output that is changed": lambda rows, weight: index(of_scan(rows, weight), rows.shape[0] - 1).at[0].add(1),
    "a counter that begins again": lambda rows, weight: jax.lax.while_loop(
        lambda state: state[1] < 300, of_a_byte(rows), (jnp.int8(0), 0, jnp.zeros_like(rows))
    )[2],
    "all rows from a branch": in_turn(
        lambda rows, weight, t, c, row, out: step(
            rows, weight, t, c, jax.lax.cond(t < 3, lambda: rows, lambda: 0 * rows).sum(0), out
        )
    ),
    "all rows in the next turn": lambda rows, weight: jax.lax.while_loop(
        lambda state: state[0] < len(rows), with_all_rows_later, (0, rows, 0 * rows, jnp.zeros_like(rows))
    )[3],
    "outputs written twice": in_turn(lambda rows, weight, t, c, row, out: (c + row, put(put(out, row, t), c, t))),
}


def with_all_rows_later(state):
    """A turn that hands all rows to the next one at a second place."""
    t, rows, later, outputs = state
    return t + 1, rows, rows, put(outputs, index(rows, t, keepdims=False) + later.sum(0), t)


def of_a_byte(rows):
    """A turn whose counter is below 0 after 127, where another number takes its place."""

    def turn(state):
        byte, t, outputs = state
        place = jax.lax.select(byte < jnp.int8(0), (t % 6).astype(jnp.int8), byte)
        row = jax.lax.dynamic_slice(rows, (place, jnp.int8(0)), (1, 3))
        return byte + jnp.int8(1), t + 1, jax.lax.dynamic_update_slice(outputs, row, (place, jnp.int8(0)))

    return turn


@jax.jit
def total(rows):
    return rows.sum(0)


def parsed(program, second=WEIGHT):
    with stablehlo.exporting():
        exported = export.export(jax.jit(program), platforms=["cpu"])(ROWS, second)
    return stablehlo.parsed(exported.mlir_module_serialized)


@pytest.mark.parametrize("program", IN_ORDER.values(), ids=IN_ORDER)
def test_a_loop_over_rows(program):
    row_loop.check(parsed(program), [0])


@pytest.mark.parametrize("program", OUT_OF_ORDER.values(), ids=OUT_OF_ORDER)
def test_what_is_no_such_loop(program):
    with pytest.raises(row_loop.OutOfOrderError):
        row_loop.check(parsed(program), [0])


def rows_of_both(first, second):
    return scan(lambda c, each: (c + each[0] @ each[1], c), jnp.float32(0), (first, second))[1]


def rows_in_two_scans(first, second):
    return of_scan(first, WEIGHT), of_scan(second, WEIGHT)


def test_two_arrays_in_one_loop():
    row_loop.check(parsed(rows_of_both, ROWS), [0, 1])


def test_two_arrays_in_two_loops():
    with pytest.raises(row_loop.OutOfOrderError):
        row_loop.check(parsed(rows_in_two_scans, ROWS), [0, 1])


def test_an_array_that_only_the_loop_passes_on():
    with pytest.raises(row_loop.OutOfOrderError):
        row_loop.check(parsed(of_scan), [1])
