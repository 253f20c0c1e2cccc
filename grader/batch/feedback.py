"""The feedback that learners get: a self-contained web page for each learner, also as a zip for Moodle, and comments
for Canvas."""

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import jinja2

from commandline import files
from commandline.errors import CommandError, UsageError
from commandline.problem_name import ProblemName
from commandline.text import counted
from grader.batch import deadlines, reveal
from grader.batch.faults import Faults
from grader.batch.gradebook import MOODLE, filenames
from grader.batch.records import Record, collated, total
from grader.batch.results import Results
from grader.batch.summary import Summary, by_learner_unused
from grader.batch.tables import write_csv
from grader.batch.tasks import Graded, Task, definition
from grader.course.selection import selected
from grader.isolation.level import Level
from grader.judge.verdict import Verdict
from grader.report import formats, html_report
from grader.report.redacted import Reveal

_EXPLAINED = (Verdict.FAIL, Verdict.ERROR)  # nothing more can be said of a file that ran out of time or memory

FORMAT = "moodle"  # the name of this zip among the formats
LONGEST_NAME = 60  # characters of a learner's name in it
MOST_OF_A_COMMENT = 10_000  # characters
INDEX = "index.csv"  # the learner of each page, because names of files leave out some characters
Slot = tuple[str, str]  # learner, problem


def tasks(stored: Results, seed: int, timeout: float | None, least: Level) -> list[Task]:
    """Returns the tasks that grade each failed file once more, to show its smallest failing case."""
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
    """Returns the explanations as HTML. Leaves out those with another verdict or score than the record, so that pages
    agree with marks."""
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
    for learner, text in _pages(summary, explained, faults):
        files.write(folder / f"{names[learner]}.html", text)
    return folder


def write_moodle(
    summary: Summary, explained: Mapping[Slot, str], participants: Mapping[str, str], folder: Path, faults: Faults
) -> Path:
    """Writes the pages as moodle.zip, for "Upload multiple feedback files in a zip" of an assignment in Moodle.

    `participants` are the numbers that Moodle knows the learners by. Folders are named as in Moodle's archive of
    submissions; its importer reads the number between the first two underscores (`importziplib.php` of its plugin for
    feedback files).
    """
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for learner, text in _pages(summary, explained, faults):
            if number := participants.get(learner):
                name = _moodle_name(learner.removesuffix(f" ({number})"))
                entry = zipfile.ZipInfo(f"{name}_{number}_assignsubmission_file_/feedback.html")
                archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
    files.write(folder / MOODLE, data.getvalue())
    return folder / MOODLE


def _moodle_name(name: str) -> str:
    """Returns a name without the characters that a folder's name cannot have, and without underscores, which separate
    its parts."""
    return " ".join(re.sub(r'[_/\\:*?"<>|]', " ", name).split()).strip(".")[:LONGEST_NAME] or "learner"


def comments(stored: Results) -> dict[Slot, str]:
    """Returns a comment on each file that was handed in: the verdict of each check, and the explanation for the
    learner.

    Raises UsageError if the deadlines of the last batch are needed and cannot be read.
    """
    records, people = stored.records(), list(stored.people().values())
    before, after_due = (stored.fact(name) or None for name in reveal.FACTS)
    file = stored.fact("deadlines") if after_due else None
    over = reveal.past_due(records, people, deadlines.read(Path(file)) if file else None)
    levels = reveal.levels(records, over, cast("Reveal | None", before), cast("Reveal | None", after_due))
    found = dict[Slot, str]()
    for record in records:
        slot = (record.learner, record.problem)
        if record.report and record.is_handed_in and not record.excused:
            told = record.told(levels[slot])
            text = formats.text([told.report])[:MOST_OF_A_COMMENT] if told.report else ""
            if record.late:
                text += f"\n{_price(record)}"
            elif record.mark != record.score:
                text += f"\nThe mark is {record.mark:g} of {counted(record.points, 'point')}."
            found[slot] = text.strip()
    return found


def _pages(summary: Summary, explained: Mapping[Slot, str], faults: Faults) -> Iterator[tuple[str, bytes]]:
    """Yields the page of each learner. Logs the error if a page cannot be made."""
    for learner, records in summary.records.items():
        try:
            yield learner, page(learner, records, summary, explained).encode()
        except CommandError:
            raise
        except Exception as error:  # whatever it is, the rest of the class gets its pages
            faults.add(learner, error)


def page(learner: str, records: Sequence[Record], summary: Summary, explained: Mapping[Slot, str]) -> str:
    """Returns a learner's page: marks, lateness, files that were not used, and the report on each file."""
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
    return html_report.page(f"Results of {learner}", selected().title, body)


def _price(record: Record) -> str:
    """Describes how late the file was and, if that cost anything, how the mark follows from the score."""
    if record.mark == record.score:
        return record.late
    price = record.score - record.mark
    return f"{record.late}: {record.score} - {price:g} = {record.mark:g} of {counted(record.points, 'point')}"


def _article(record: Record) -> str:
    """Returns the report, which holds nothing secret."""
    if not record.report:
        return ""
    return html_report.render(record.report.report(Path(record.file).name), is_final=True)


@cache
def _template() -> jinja2.Template:
    return html_report.environment(Path(__file__).parent).get_template("feedback.jinja")
