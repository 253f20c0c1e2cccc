"""`grade batch --feedback`: a web page for each learner, which needs no other file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import jinja2

from commandline import files
from commandline.errors import CommandError, UsageError
from commandline.problem_name import ProblemName
from commandline.text import counted
from grader.batch.faults import Faults
from grader.batch.gradebook import filenames
from grader.batch.records import Record, collated, total
from grader.batch.store import Results
from grader.batch.summary import Summary, by_learner_unused
from grader.batch.tables import write_csv
from grader.batch.tasks import Graded, Task, definition
from grader.course.selection import selected
from grader.isolation.level import Level
from grader.judge.verdict import Verdict
from grader.report import html

_EXPLAINED = (Verdict.FAIL, Verdict.ERROR)  # nothing more can be said of a file that ran out of time or memory

INDEX = "index.csv"  # whose page is which: names of files leave out some characters
Slot = tuple[str, str]  # learner, problem


def tasks(stored: Results, seed: int, timeout: float | None, least: Level) -> list[Task]:
    """What to grade once more, to show the smallest failing case of each file that failed."""
    found = list[Task]()
    for record in stored.records():
        if record.verdict not in _EXPLAINED or not record.report or not record.report.executed:
            continue
        attempts = stored.attempts(record.learner, record.problem)
        sources = next(dict(attempt.sources) for attempt in attempts if attempt.attempt == record.attempt)
        found.append(
            Task(
                record.learner, record.problem, record.attempt, Path(record.file).name, sources, seed, timeout, least,
                definition(record.problem), explain=True,
            )
        )  # fmt: skip
    return found


def articles(
    explained: Iterator[tuple[Task, Graded | str]], records: Sequence[Record], advance: Callable[[int, str], None]
) -> dict[Slot, str]:
    """The explanations as HTML. One whose verdict is not that of the record is left out, so that pages agree with marks."""
    results = {(record.learner, record.problem): (record.verdict, record.score) for record in records}
    found = dict[Slot, str]()
    for task, graded in explained:
        slot = (task.learner, task.problem)
        if isinstance(graded, Graded) and (str(graded.report.verdict), graded.report.score) == results[slot]:
            found[slot] = graded.article
        advance(1, f"{task.learner}, {ProblemName(task.problem).label}")
    return found


def create(folder: Path) -> None:
    """Makes the folder if there is none. Raises UsageError if it is a file."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UsageError(f"{folder} is a file; choose a folder for the feedback.") from None


def write(summary: Summary, explained: Mapping[Slot, str], folder: Path, faults: Faults) -> Path:
    """Writes the page of each learner to the folder and returns it. Without an explanation, no secret case is shown.

    A learner whose page cannot be written has none, and the error is logged. Raises UsageError if `folder` is a file.
    """
    create(folder)
    names = filenames(summary.records)
    write_csv(
        folder / INDEX,
        ("learner", "page"),
        [(learner, f"{names[learner]}.html") for learner in sorted(names, key=collated)],
    )
    for learner, records in summary.records.items():
        try:
            files.write(folder / f"{names[learner]}.html", page(learner, records, summary, explained))
        except CommandError:
            raise
        except Exception as error:  # whatever it is, the rest of the class gets its pages
            faults.add(learner, error)
    return folder


def page(learner: str, records: Sequence[Record], summary: Summary, explained: Mapping[Slot, str]) -> str:
    """A learner's page: marks, lateness, files that were not used, and the report on each file."""
    mark, points = total(records)
    labels = {str(row.problem.name): (row.problem.label, row.problem.title) for row in summary.problems}
    body = _template().render(
        learner=learner, records=records, labels=labels, mark=mark, points=points,
        unused=[*by_learner_unused(row for row in summary.unused if row[0] == learner)],
        timed=any(record.times for record in records), price=_price,
        articles=[
            explained.get((learner, record.problem)) or _article(record) for record in records if record.is_handed_in
        ],
    )  # fmt: skip
    return html.page(f"Results of {learner}", selected().title, body)


def _price(record: Record) -> str:
    """How late the file was and, if that cost anything, how the mark follows from the score."""
    if record.mark == record.score:
        return record.late
    price = record.score - record.mark
    return f"{record.late}: {record.score} - {price:g} = {record.mark:g} of {counted(record.points, 'point')}"


def _article(record: Record) -> str:
    """The report, which holds nothing secret."""
    if not record.report:
        return ""
    return html.render(record.report.report(Path(record.file).name), is_final=True)


@cache
def _template() -> jinja2.Template:
    return html.environment(Path(__file__).parent).get_template("feedback.jinja")
