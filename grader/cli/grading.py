"""Grades one file for a command, with a sign of life on the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
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
    """The report on a file. Raises UsageError if there is no such file, CourseError if the problem cannot be graded.

    `modules` is the folder with the course modules that it imports, if that is another one.
    """
    from grader.judge import recorded, submission

    recorded.check_gradable(problem)
    try:
        source = submission.read(problem, file, modules)
    except submission.UnreadableSubmissionError as error:
        from grader.judge import judge
        from grader.judge.verdict import Verdict

        return judge.refused(problem, file.name, Verdict.ERROR, str(error))
    from grader.isolation import scratch
    from grader.isolation.sandbox import ForkServer
    from grader.resident.server import borrowed

    lent = borrowed()
    fork_server = lent or ForkServer()  # started before the judge's own imports, because its imports take longest
    try:
        with working(f"grading problem {problem.label}", lines=problem.long_runs and not secret) as say:
            from grader.errors import WorkerStartError
            from grader.judge import judge

            options = judge.GradeOptions(seed=seed, timeout=timeout, show=not secret)
            if not secret:  # nothing that comes from the file's process is shown before the report is redacted
                options = replace(options, say=say)
            try:
                return judge.grade(problem, source, fork_server, options)
            except WorkerStartError:
                if lent is None:
                    raise
                lent.close()
                fork_server = ForkServer()  # the program that lent the other one has just ended
                return judge.grade(problem, source, fork_server, options)
    finally:
        fork_server.close()
        scratch.leave()


@contextmanager
def fork_server(title: str) -> Iterator[Any]:
    """A fork server for a command, with a sign of life on the terminal."""
    from grader.isolation import scratch
    from grader.isolation.sandbox import ForkServer
    from grader.resident.server import borrowed

    server = borrowed() or ForkServer()
    try:
        with working(title):
            yield server
    finally:
        server.close()
        scratch.leave()
