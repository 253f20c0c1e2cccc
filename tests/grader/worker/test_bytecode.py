"""The reader of MLIR bytecode: it finds every operation of a program, and no bytes make it fail in another way than it
says."""

import contextlib
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import export

from grader.worker import bytecode, stablehlo

pytestmark = pytest.mark.fast


def program(x: jax.Array) -> jax.Array:
    values, _ = jax.lax.top_k(jnp.sort(x @ x.T), 2)
    return jax.lax.fori_loop(0, 3, lambda i, y: y + jnp.where(y > i, jnp.sin(y), y), values)


@functools.cache
def module() -> bytes:
    """The program, exported when the first test needs it: other tests configure JAX before it starts."""
    return export.export(jax.jit(program))(jax.ShapeDtypeStruct((3, 3), jnp.float32)).mlir_module_serialized


def test_every_operation_is_listed():
    found = {op.name for op in stablehlo.operations(stablehlo.parsed(module()))}
    listed = {name.removeprefix("vhlo.").rsplit("_v", 1)[0] for name in bytecode.contents(module()).operations}
    assert {name.split(".")[1] for name in found if name.startswith("stablehlo.")} <= listed
    assert "while" in listed


def test_equal_programs_are_equal_bytes():
    def other_name(renamed: jax.Array) -> jax.Array:
        return program(renamed)

    def exported(function: Callable[[jax.Array], jax.Array]) -> bytes:
        return export.export(jax.jit(function))(jax.ShapeDtypeStruct((3, 3), jnp.float32)).mlir_module_serialized

    assert exported(program) != exported(other_name)
    with stablehlo.exporting():
        assert exported(program) == exported(other_name)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes):
    for start in (b"", bytecode.MAGIC, module()[:40], module()):
        with contextlib.suppress(bytecode.BytecodeError):
            bytecode.contents(start + data)


@given(st.data())
def test_a_damaged_program_is_read_or_refused(data: st.DataObject):
    damaged = bytearray(module())
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for mutant in (damaged, damaged[:cut]):
        with contextlib.suppress(bytecode.BytecodeError):
            bytecode.contents(bytes(mutant))
