"""Whether an open task is sound: its stub is in no class, each class has a file that is in it, and forgeries are
refused."""

from collections.abc import Iterator
from pathlib import Path

from commandline.errors import UsageError
from grader.course import catalog, imports, tasks
from grader.diagnosis.soundness import verify as of_diagnosis
from grader.experiment.soundness import verify as of_experiment
from grader.isolation.sandbox import Workers
from grader.judge import submission as submission_
from grader.judge.submission import Submission
from grader.task import Diagnosis, Experiment, Task
from grader.tasks.grading import Score, grade

FEWEST_FORGERIES = 3
Finding = tuple[str, str]  # what was found, and a complaint about it; empty if there is none


def verify(task: Task, workers: Workers) -> Iterator[Finding]:
    """Yields what was found, in order, for the page, the stub, each class and each forgery. Raises CourseError."""
    if isinstance(task, Experiment):
        yield from of_experiment(task)
        return
    if isinstance(task, Diagnosis):
        yield from of_diagnosis(task)
        return
    text = catalog.page_text(task)
    missing = next((entry.signature() for entry in task.entries if entry.signature() not in text), "")
    yield "the page shows each entry", missing and f"the page does not show {missing}"
    yield of_stub(task, grade(task, stub(task), workers, quick=True))
    for standard in task.standards:
        try:
            submission = shipped(task, tasks.class_file(task, standard))
        except UsageError as error:
            yield "", f"no file is in the class {standard.name}: {error}"
            continue
        score = grade(task, submission, workers)
        wrong = score.standard != standard.name
        yield _told(submission, score), f"{_told(submission, score)}, not {standard.name}" if wrong else ""
    forgeries = tasks.forgeries(task)
    if len(forgeries) < FEWEST_FORGERIES:
        yield "", f"it has {len(forgeries)} forgeries, fewer than {FEWEST_FORGERIES}"
    for path in forgeries:
        submission = shipped(task, path)
        yield of_forgery(submission, grade(task, submission, workers, quick=True))


def of_stub(task: Task, score: Score) -> Finding:
    """Returns what a quick score says about the stub: it may fall short, but not fail, and it must be in no class."""
    reached = score.value is not None and task.standard(score.value)
    said = f"the stub: {score.failure.sentence() if score.failure else score.missed or f'{score.value:,}'}"
    return said, said if score.failure or reached else ""


def of_forgery(submission: Submission, score: Score) -> Finding:
    """Returns what a quick score says about a forgery: it must be refused for the reason that its REFUSED names."""
    told = score.failure.sentence() if score.failure else score.missed
    reason: str = imports.constant(submission.sources[score.task.label], "REFUSED")
    refused = bool(score.failure) and reason in told
    said = f"{submission.filename}: {told or 'it gets a score'}"
    return said, "" if refused else said


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
