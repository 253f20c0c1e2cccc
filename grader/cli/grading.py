"""Grades one file for a command, with a sign of life on the terminal."""

from itertools import islice
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


def tried(problem: Any, source: Any, title: str, *, at_most: int | None = None) -> list[Any]:
    """The checks that a program fails, up to a number of them, with no word on why."""
    from grader.isolation import scratch
    from grader.isolation.sandbox import ForkServer
    from grader.practice import trial
    from grader.resident.server import borrowed

    fork_server = borrowed() or ForkServer()
    try:
        with working(title):
            return list(islice(trial.failures(problem, source, fork_server), at_most))
    finally:
        fork_server.close()
        scratch.leave()
