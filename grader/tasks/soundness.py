"""Whether an open task is sound: its stub is in no class, each class has a file that is in it, and forgeries are
refused."""

from collections.abc import Iterator
from pathlib import Path

from commandline.errors import UsageError
from grader.course import catalog, imports, tasks
from grader.course.findings import Finding, finding, of_forgeries, of_page
from grader.isolation.sandbox import Workers
from grader.judge import submission as submission_
from grader.judge.submission import Submission
from grader.task import Task
from grader.tasks.grading import Score, grade


def verify(task: Task, workers: Workers) -> Iterator[Finding]:
    """Yields what was found, in order, for the page, the stub, each class and each forgery. Raises CourseError."""
    yield of_page(task, "each entry", (entry.signature() for entry in task.entries))
    yield of_stub(task, grade(task, stub(task), workers, quick=True))
    for standard in task.standards:
        try:
            submission = shipped(task, tasks.class_file(task, standard))
        except UsageError as error:
            yield finding(f"no file is in the class {standard.name}: {error}", sound=False)
            continue
        score = grade(task, submission, workers)
        told = _told(submission, score)
        yield finding(told, sound=score.standard == standard.name, complaint=f"{told}, not {standard.name}")
    yield from of_forgeries(task)
    for path in tasks.forgeries(task):
        submission = shipped(task, path)
        yield of_forgery(submission, grade(task, submission, workers, quick=True))


def of_stub(task: Task, score: Score) -> Finding:
    """Returns what a quick score says about the stub: it may fall short, but not fail, and it must be in no class."""
    reached = score.value is not None and task.standard(score.value)
    said = f"the stub: {score.failure.sentence() if score.failure else score.missed or f'{score.value:,}'}"
    return finding(said, sound=not (score.failure or reached))


def of_forgery(submission: Submission, score: Score) -> Finding:
    """Returns what a quick score says about a forgery: it must be refused for the reason that its REFUSED names."""
    told = score.failure.sentence() if score.failure else score.missed
    reason: str = imports.constant(submission.sources[score.task.label], "REFUSED")
    refused = bool(score.failure) and reason in told
    return finding(f"{submission.filename}: {told or 'it gets a score'}", sound=refused)


def stub(task: Task) -> Submission:
    """Returns the stub as a submission, with the references of the problems that it imports."""
    return _with_references(task, f"{task.label}.py", catalog.stub_text(task))


def shipped(task: Task, path: Path) -> Submission:
    """Returns a file of the course as a submission, with the references of the problems that it imports. Raises
    UsageError if there is none."""
    return submission_.read(task, path, modules=task.home / "solutions")


def _with_references(task: Task, filename: str, text: str) -> Submission:
    return Submission(filename, imports.with_imports(task.name, text, catalog.references(task)))


def _told(submission: Submission, score: Score) -> str:
    found = score.standard or score.missed or (score.failure.sentence() if score.failure else "in no class")
    worth = f", {score.value:,} {score.task.unit}" if score.value is not None else ""
    return f"{submission.filename}: {found}{worth}"
