"""Looks up the remedy for an error of JAX, in one clause. `remedies.toml` is a table of error types and messages.

JAX's messages are right, but they explain tracing in general, and often name neither the cause nor the remedy in this
code.
"""

import builtins
import re
import tomllib
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jax

# Read before a worker is confined, and parsed after the first error.
_TEXT = Path(__file__).with_name("remedies.toml").read_text(encoding="utf-8")


@cache
def _table() -> list[tuple[type[BaseException], str, str]]:
    """Returns the type, the pattern and the clause of each row."""
    rows = tomllib.loads(_TEXT)["remedy"]
    return [(_error(row["error"]), row.get("pattern", ""), row["says"]) for row in rows]


def _error(name: str) -> type[BaseException]:
    found: type[BaseException] = getattr(builtins, name, None) or getattr(jax.errors, name)
    return found


def remedy(error: BaseException) -> str:
    """Returns the remedy for an error of JAX, as a clause; empty if the table has none."""
    for cause in _chain(error):
        try:
            text = str(cause)
        except BaseException:  # a learner's own exception
            return ""
        for kind, pattern, clause in _table():
            if isinstance(cause, kind) and (found := re.search(pattern, text)):
                return clause.format(*(group for group in found.groups() if group))
    return ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields the error and its causes: NumPy hides JAX's error behind its own.

    An error that Python code raised while it handled another is an error of its own: both went through the same frame.
    """
    while error:
        yield error
        inner = error.__cause__ or error.__context__
        error = inner if inner and not _frames(error) & _frames(inner) else None


def _frames(error: BaseException) -> set[int]:
    return {id(frame) for frame, _ in traceback.walk_tb(error.__traceback__)}
