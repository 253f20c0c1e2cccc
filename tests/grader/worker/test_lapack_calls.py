"""Calls of LAPACK have the arrays that JAX gives them, and no others: LAPACK does not look at most of their shapes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

from grader.problem import Case
from grader.wire.program import Input, Program
from grader.worker import stablehlo
from grader.worker.lapack_calls import misfit
from grader.worker.witness import RefusedProgramError, Witness

pytestmark = pytest.mark.fast


def exported(function: Callable[..., Any], *shapes: tuple[int, ...]) -> bytes:
    specs = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    module: bytes = export.export(jax.jit(function), platforms=["cpu"])(*specs).mlir_module_serialized
    return module


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (jnp.linalg.qr, [(2, 5, 3)]),
        (jnp.linalg.qr, [(3, 5)]),
        (lambda x: jnp.linalg.qr(x, mode="complete"), [(5, 3)]),
        (jnp.linalg.cholesky, [(2, 4, 4)]),
        (lax.linalg.lu, [(2, 3, 5)]),
        (jnp.linalg.inv, [(3, 3)]),
        (jnp.linalg.eigh, [(2, 4, 4)]),
        (jnp.linalg.eigvalsh, [(4, 4)]),
        (jnp.linalg.svd, [(5, 3)]),
        (lambda x: jnp.linalg.svd(x, full_matrices=False), [(2, 5, 3)]),
        (lambda x: jnp.linalg.svd(x, compute_uv=False), [(5, 3)]),
        (jnp.linalg.pinv, [(3, 4)]),
        (lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True), [(2, 4, 4), (2, 4, 3)]),
        (lambda a, b: lax.linalg.triangular_solve(a, b), [(3, 3), (4, 3)]),
    ],
)
def test_what_jax_calls_fits(function: Callable[..., Any], shapes: list[tuple[int, ...]]):
    module = exported(function, *shapes)
    assert b"lapack_s" in module
    assert not misfit(stablehlo.parsed(module))


def call(name: str, results: Any, **options: str) -> Callable[..., Any]:
    """A call of a routine with results of these shapes."""
    kinds = jax.tree.map(lambda shape: jax.ShapeDtypeStruct(shape, jnp.float32), results, is_leaf=_is_shape)
    letters = {key: np.uint8(ord(letter)) for key, letter in options.items()}
    return lambda *arrays: jax.ffi.ffi_call(f"lapack_s{name}_ffi", kinds)(*arrays, **letters)


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(size, int) for size in value)


SOLVE = {"side": "L", "uplo": "L", "trans_x": "N", "diag": "U"}


@pytest.mark.parametrize(
    ("name", "shapes", "results", "options"),
    [
        ("trsm", [(9, 1), (3, 5)], (3, 5), SOLVE),  # a matrix of 3 rows, declared as one of 1
        ("trsm", [(5, 5), (3, 5)], (3, 5), SOLVE),
        ("trsm", [(3, 3), (3, 5)], (3, 4), SOLVE),
        ("trsm", [(3, 3), (2, 3, 5)], (2, 3, 5), SOLVE),
        ("trsm", [(3, 3), (3, 5)], (3, 5), {}),
        ("geqrf", [(5, 3)], [(5, 3), (2,)], {}),
        ("orgqr", [(5, 3), (4,)], (5, 3), {}),
        ("orgqr", [(3, 5), (3,)], (3, 5), {}),
        ("potrf", [(3, 4)], [(3, 4), ()], {"uplo": "L"}),
        ("getrf", [(3, 5)], [(3, 5), (2,), ()], {}),
        ("syevd", [(4, 4)], [(4, 4), (3,), ()], {"mode": "V", "uplo": "L"}),
        ("gesdd", [(5, 3)], [(5, 3), (3,), (5, 3), (3, 3), ()], {"mode": "A"}),
        ("gesdd", [(5, 3)], [(5, 3), (3,), (5, 3), (3, 3), ()], {"mode": "O"}),
    ],
)
def test_other_arrays_do_not_fit(name: str, shapes: list[tuple[int, ...]], results: Any, options: dict[str, str]):
    assert misfit(stablehlo.parsed(exported(call(name, results, **options), *shapes))) == name


def test_a_witness_refuses_arrays_that_do_not_fit():
    module = exported(call("trsm", (3, 5), **SOLVE), (9, 1), (3, 5))
    inputs = [Input("case", "a", (9, 1), "float32"), Input("case", "b", (3, 5), "float32")]
    case = Case({"a": np.ones((9, 1), np.float32), "b": np.ones((3, 5), np.float32)})
    with pytest.raises(RefusedProgramError, match="LAPACK's trsm"):
        Witness().run(Program(module, inputs, ["output"]), case)
