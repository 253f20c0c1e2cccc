"""Grades one file: by a resident judge, with the fork server of another program, or with one of its own.

The file is read once, so that a save during the grading does not mix two texts.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from grader.judge.options import GradeOptions

if TYPE_CHECKING:
    from grader.course.workspace import Workspace
    from grader.isolation.sandbox import ForkServer
    from grader.judge.submission import Submission
    from grader.judge.verdict import Report
    from grader.problem import Problem
    from grader.resident.messages import Display, GradeResponse


@contextmanager
def fork_server() -> "Iterator[ForkServer]":
    """Yields the fork server that another program of this user lends, or one of its own.

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


def report(
    problem: "Problem",
    file: Path,
    options: GradeOptions,
    *,
    modules: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> "Report":
    """Grades a file and returns the report.

    Takes the course modules that the file imports from the folder `modules`, its own folder unless given. `say`
    receives progress, unless the options keep the cases secret: then nothing that comes from the file's process is
    shown before the report is redacted. Raises UsageError if there is no such file, and CourseError if the problem
    cannot be graded.
    """
    return report_on(
        problem, file.name, read(problem, file, modules), lambda source: grade(problem, source, options, say)
    )


def response(
    problem: "Problem",
    file: Path,
    options: GradeOptions,
    display: "Display",
    say: Callable[[str], None] = lambda text: None,
) -> "GradeResponse":
    """Grades a file and returns the verdict as texts: a resident judge's, if there is one, which saves most imports.

    Secret cases are shown to no other process. Raises the errors of `report`.
    """
    from grader.resident import client
    from grader.resident.messages import GradeRequest, GradeResponse

    source = read(problem, file)
    if not isinstance(source, str) and options.show:
        request = GradeRequest(str(problem.name), source, options, display)
        if answer := client.verdict(request, say):
            return answer
    made = report_on(problem, file.name, source, lambda source: grade(problem, source, options, say))
    return GradeResponse.of(made, display)


def read(problem: "Problem", file: Path, modules: Path | None = None) -> "Submission | str":
    """Returns the submission; if its text cannot be read, why not. Raises UsageError if there is no such file."""
    from grader.judge import submission

    try:
        return submission.read(problem, file, modules)
    except submission.UnreadableSubmissionError as error:
        return str(error)


def report_on(
    problem: "Problem", name: str, source: "Submission | str", grades: "Callable[[Submission], Report]"
) -> "Report":
    """Returns the report on `source`, the result of `read` for the file with that name: a submission, or the reason why
    it cannot be read.

    `grades` grades a submission. Raises CourseError if the problem cannot be graded.
    """
    if isinstance(source, str):
        from grader.judge import bundled_outputs, judge
        from grader.judge.verdict import Verdict

        bundled_outputs.check_gradable(problem)
        return judge.refused(problem, name, Verdict.ERROR, source)
    return grades(source)


def grade(
    problem: "Problem", source: "Submission", options: GradeOptions, say: Callable[[str], None] = lambda text: None
) -> "Report":
    """Grades a submission with the fork server of another program or with one of its own. Returns the report."""
    from grader.isolation import scratch
    from grader.isolation.sandbox import ForkServer
    from grader.resident.client import borrowed

    lent = borrowed()
    server = lent or ForkServer()  # started before the judge's own imports, because its imports take longest
    try:
        from grader.errors import WorkerStartError
        from grader.judge import judge

        listener = judge.Listener(say) if options.show else None
        try:
            return judge.grade(problem, source, server, options, listener=listener)
        except WorkerStartError:
            if lent is None:
                raise
            lent.close()
            server = ForkServer()  # the program that lent the other one has just ended
            return judge.grade(problem, source, server, options, listener=listener)
    finally:
        server.close()
        scratch.leave()


def remember(space: "Workspace", report: "Report", digest: str = "") -> None:
    """Notes a verdict in the log of a workspace. `digest` is that of the text that got it: the current one unless
    given."""
    from grader.resident.messages import Display, GradeResponse

    GradeResponse.of(report, Display(())).note(space, report.problem, digest)
