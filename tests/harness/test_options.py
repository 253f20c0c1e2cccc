"""What every command of the harness does before it uses JAX."""

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from harness.cli.options import prepare_jax

SECONDS = "jax_persistent_cache_min_compile_time_secs"


@pytest.fixture
def only_slow_programs_are_kept() -> Iterator[None]:
    """JAX's own default."""
    jax.config.update(SECONDS, 1.0)
    yield
    jax.config.update(SECONDS, 0.0)


@pytest.mark.usefixtures("only_slow_programs_are_kept")
def test_programs_that_compile_quickly_are_kept() -> None:
    def before(x: float) -> float:
        return 7.125 * x

    def after(x: float) -> float:
        return 7.25 * x

    jax.jit(before)(1.0)
    prepare_jax()
    jax.jit(after)(1.0)
    folder = Path(os.environ["HARNESS_CACHE"]).parent / "programs-of-tests"  # that of this process
    assert [name for name in ("before", "after") if list(folder.glob(f"jit_{name}-*"))] == ["after"]
