"""Grades one file for a command, with a sign of life on the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from commandline.progress import working


def graded(
    problem: Any,
    file: Path,
    seed: int,
    timeout: float | None = None,
    *,
    secret: bool = False,
    modules: Path | None = None,
) -> Any:
    """The report on a file, as `once.graded` makes it."""
    from grader.resident import once

    with working(f"grading problem {problem.label}", lines=problem.long_runs and not secret) as say:
        return once.graded(problem, file, seed, timeout, secret=secret, modules=modules, say=say)


def answered(problem: Any, file: Path, look: Any, seed: int, timeout: float | None = None) -> Any:
    """The verdict on a file, ready to be shown, as `once.answered` makes it."""
    from grader.resident import once

    with working(f"grading problem {problem.label}", lines=problem.long_runs) as say:
        return once.answered(problem, file, look, seed, timeout, say=say)


@contextmanager
def fork_server(title: str) -> Iterator[Any]:
    """A fork server for a command, with a sign of life on the terminal."""
    from grader.resident import once

    with once.fork_server() as server, working(title):
        yield server
