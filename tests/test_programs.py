"""The tests' own programs: they compile fast, and each is compiled once."""

from typing import Any

import jax
import pytest
from jax._src import compiler
from jax._src.lib import xla_client

from tests import programs

pytestmark = [pytest.mark.fast, pytest.mark.private]


def test_xla_has_read_the_flags() -> None:
    """XLA reads them once in a process. Tests that set them later take ten times as long to compile their programs."""
    options = xla_client.CompileOptions().executable_build_options.debug_options
    assert options.xla_backend_optimization_level == 0
    assert options.xla_llvm_disable_expensive_passes


def test_a_program_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile_one = compiler.backend_compile_and_load

    def noted(*arguments: Any) -> Any:
        compiled.append(arguments)
        return compile_one(*arguments)

    monkeypatch.setattr(compiler, "backend_compile_and_load", noted)

    def run(factor: float, x: float) -> float:
        return float(jax.jit(lambda x: x * factor)(x))

    assert [run(3.25, 2.0), run(3.25, 4.0)] == [6.5, 13]
    assert len(compiled) == 1
    monkeypatch.setattr(programs, "_loaded", {})
    assert run(3.25, 6.0) == 19.5  # as another process finds it
    assert len(compiled) == 1
    assert run(4.25, 2.0) == 8.5
    assert len(compiled) == 2
