"""Work on one file: by a resident judge, with the fork server that one lends, or with one of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grader.course.workspace import Workspace
    from grader.isolation.sandbox import ForkServer
    from grader.judge.submission import Submission
    from grader.judge.verdict import Report
    from grader.problem import Problem
    from grader.resident.question import Answer, Look


@contextmanager
def fork_server() -> "Iterator[ForkServer]":
    """The fork server that another program of this user lends, or one of its own.

    Enter it before other imports, because its own take longest. At the end it is closed, and this process's scratch
    folder is removed.
    """
    from grader.isolation import scratch
    from grader.isolation.sandbox import ForkServer
    from grader.resident.client import borrowed

    server = borrowed() or ForkServer()
    try:
        yield server
    finally:
        server.close()
        scratch.leave()


def answered(
    problem: "Problem",
    file: Path,
    look: "Look",
    seed: int = 0,
    timeout: float | None = None,
    *,
    modules: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> "Answer":
    """The verdict on a file, ready to be shown: that of a resident judge if there is one, else made here.

    Arguments and errors are those of `graded`.
    """
    from grader.resident import client
    from grader.resident.question import Answer, Question

    source = _read(problem, file, modules)
    if not isinstance(source, str):  # else no judge is needed for the verdict
        question = Question(str(problem.name), source, look, seed, timeout)
        if answer := client.verdict(question, say):
            return answer
    return Answer.of(_report(problem, file.name, source, seed, timeout, say=say), look)


def graded(
    problem: "Problem",
    file: Path,
    seed: int = 0,
    timeout: float | None = None,
    *,
    secret: bool = False,
    modules: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> "Report":
    """The report on a file. Raises UsageError if there is no such file, CourseError if the problem cannot be graded.

    `modules` is the folder with the course modules that it imports, if that is another one. `say` receives progress, unless the
    cases are `secret`: nothing that comes from the file's process is shown before the report is redacted.
    """
    source = _read(problem, file, modules)
    return _report(problem, file.name, source, seed, timeout, secret=secret, say=say)


def _read(problem: "Problem", file: Path, modules: Path | None) -> "Submission | str":
    """The submission; if its text cannot be read, why not. Raises UsageError if there is no such file."""
    from grader.judge import submission

    try:
        return submission.read(problem, file, modules)
    except submission.UnreadableSubmissionError as error:
        return str(error)


def _report(
    problem: "Problem",
    name: str,
    source: "Submission | str",
    seed: int,
    timeout: float | None,
    *,
    secret: bool = False,
    say: Callable[[str], None],
) -> "Report":
    """The report on what `_read` has read of the file with that name. Arguments and errors are those of `graded`."""
    from grader.judge import recorded

    recorded.check_gradable(problem)
    if isinstance(source, str):
        from grader.judge import judge
        from grader.judge.verdict import Verdict

        return judge.refused(problem, name, Verdict.ERROR, source)
    from grader.isolation import scratch
    from grader.isolation.sandbox import ForkServer
    from grader.resident.client import borrowed

    lent = borrowed()
    fork_server = lent or ForkServer()  # started before the judge's own imports, because its imports take longest
    try:
        from grader.errors import WorkerStartError
        from grader.judge import judge

        options = judge.GradeOptions(seed=seed, timeout=timeout, show=not secret)
        if not secret:
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


def remember(space: "Workspace", report: "Report", digest: str = "") -> None:
    """Notes a verdict in the log of a workspace. `digest` is that of the text that got it: the current one unless given."""
    from grader.resident.question import Answer, Look

    Answer.of(report, Look(())).note(space, report.problem, digest)
