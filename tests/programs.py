"""What JAX makes of a program, made once for all tests: its MLIR context, and what is compiled.

A test that calls JAX's operations one by one compiles dozens of small programs, most of which another test has
compiled, in this process or in another. By default, JAX takes 3 ms and a megabyte of memory for the context of each,
and compiles it in 10 ms.

Measured on 29 November 2026: the tests of `harness/model`, `harness/pieces` and `harness/training` take 346 seconds of
computing with it, and 405 without. To remove it, delete this file and the line of `conftest.py` that calls `share`.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import jax
from jax._src import compilation_cache
from jax._src.compilation_cache_interface import CacheInterface
from jax._src.interpreters import mlir

from grader.worker.stablehlo import context

_read, _write = compilation_cache.get_executable_and_time, compilation_cache.put_executable_and_time
_loaded: dict[str, tuple[Any, int]] = {}  # executables, and the seconds to compile them, by their keys in the cache


class Folder(CacheInterface):
    """Compiled programs in a folder that several processes share. From that of JAX, they can read what is half
    written."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._path.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> bytes | None:
        """The program with this key, or None if there is none."""
        try:
            return (self._path / key).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, key: str, value: bytes) -> None:
        """Adds a program."""
        with tempfile.NamedTemporaryFile(dir=self._path, delete=False) as file:
            file.write(value)
        os.replace(file.name, self._path / key)


def _get(key: str, options: Any, backend: Any, devices: Any, callbacks: Any = ()) -> tuple[Any, int | None]:
    if callbacks:  # given by JAX 0.11; an executable has those that it was loaded with
        return _read(key, options, backend, devices, callbacks)
    if key not in _loaded:
        executable, seconds = _read(key, options, backend, devices)
        if executable is None or seconds is None:
            return None, None
        _loaded[key] = executable, seconds
    return _loaded[key]


def _put(key: str, name: str, executable: Any, backend: Any, seconds: int) -> None:
    _loaded[key] = executable, seconds
    _write(key, name, executable, backend, seconds)


def share(folder: Path) -> None:
    """From now on, this process shares the programs that it compiles with all processes that share the folder."""
    one = context()  # before the function is replaced that it calls
    replacements = {
        (mlir, "make_ir_context"): lambda: one,
        (compilation_cache, "get_file_cache"): lambda path: (Folder(path), path),
        (compilation_cache, "get_executable_and_time"): _get,
        (compilation_cache, "put_executable_and_time"): _put,
    }
    for (module, name), function in replacements.items():
        setattr(module, name, function)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()


def forget() -> None:
    """Takes all programs out of the memory of this process."""
    _loaded.clear()
    jax.clear_caches()
