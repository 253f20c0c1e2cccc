"""A function outside of the course, as a problem with one case: so it is traced and counted like any other.

Its arguments are given as text: `x: f32[1024,64], n: 3`.
"""

import ast
import keyword
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from commandline.errors import UsageError
from grader.problem import Cases, Check, Entry, Problem

if TYPE_CHECKING:
    from numpy.random import Generator

NAME = "p00_function"
DTYPES = {
    "f32": "float32",
    "f16": "float16",
    "i32": "int32",
    "i8": "int8",
    "u32": "uint32",
    "u8": "uint8",
    "bool": "bool",
}
EXAMPLE = "x: f32[1024,64], n: 3"
_ARRAY = re.compile(r"(\w+)\[([\d,\s]*)\]")
Argument = tuple[str, tuple[int, ...]] | bool | int | float | str
"""An array, as its dtype and shape, or a value that the function is called with."""


def arguments(text: str) -> dict[str, Argument]:
    """Returns the arguments by name. Raises UsageError."""
    found: dict[str, Argument] = {}
    for part in re.split(r",(?![^\[]*\])", text):
        name, colon, value = (each.strip() for each in part.partition(":"))
        if not colon or not name.isidentifier() or keyword.iskeyword(name) or name in found:
            raise UsageError(f"{part.strip()!r} is not an argument; write {EXAMPLE!r}.")
        found[name] = _argument(name, value)
    return found


def _argument(name: str, text: str) -> Argument:
    if array := _ARRAY.fullmatch(text):
        if array[1] not in DTYPES:
            raise UsageError(f"{array[1]} is not a dtype of `{name}`; use one of {', '.join(DTYPES)}.")
        return DTYPES[array[1]], tuple(int(size) for size in array[2].replace(" ", "").split(",") if size)
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, bool | int | float | str):
        raise UsageError(f"`{name}` cannot be {text!r}; write an array such as f32[1024,64], or a number.")
    return value


def problem(entry: str, given: Mapping[str, Argument]) -> Problem:
    """Returns the problem whose one case calls the function `entry` with these arguments. Arrays are drawn at
    random."""

    def make(sizes: Mapping[str, int], rng: "Generator") -> dict[str, Any]:
        return {name: _drawn(*value, rng) if isinstance(value, tuple) else value for name, value in given.items()}

    check = Check(f"{entry}({', '.join(given)})", 1, "values", {"entry": entry}, "output")
    return Problem(entry, (Entry(entry, tuple(given)),), {"cases": Cases(make, {}, draws=1)}, (check,))


def _drawn(dtype: str, shape: tuple[int, ...], rng: "Generator") -> Any:
    if dtype.startswith("float"):
        return rng.standard_normal(shape, "float32").astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)


@contextmanager
def as_problem(entry: str, text: str) -> Iterator[Problem]:
    """Yields the problem in a folder of its own, which workers read. Raises UsageError."""
    from grader.course import catalog

    if not entry.isidentifier() or keyword.iskeyword(entry):
        raise UsageError(f"{entry!r} is not the name of a function.")
    given = arguments(text)
    with tempfile.TemporaryDirectory(prefix="grade-") as name:
        folder = Path(name) / NAME
        folder.mkdir()
        code = f"from grader.cost.function import problem\n\nPROBLEM = problem({entry!r}, {given!r})\n"
        (folder / "problem.py").write_text(code, encoding="utf-8")
        yield catalog.defined(folder)
