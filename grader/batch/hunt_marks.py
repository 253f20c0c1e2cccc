"""Marks the hunts of a class: the line, the idea and the mend of each, a point for each of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from commandline.errors import UsageError
from commandline.text import counted, one_line
from grader.batch import deadlines, gradebook, reader, roster
from grader.batch.collect import IntakeItem
from grader.batch.deadlines import HUNTS, Attempt, Deadlines
from grader.batch.faults import MESSAGE
from grader.batch.gradebook import Assignment
from grader.batch.identity import Directory
from grader.batch.intake import Intake
from grader.batch.records import Person, Record
from grader.batch.tables import write_csv
from grader.course import cases
from grader.isolation.level import Level
from grader.isolation.sandbox import ForkServer, Workers
from grader.practice import assigned, hunting, run_program
from grader.practice.assigned import Answer
from grader.practice.hunting import LETTERS
from grader.practice.hunts import Program
from grader.problem import Problem

TABLE = "hunts.csv"
HEADER = ("learner", "sheet of", "hunt", "problem", "line", "idea", "mend", "points", "note")
FULL = 3  # points of a hunt
Row = tuple[str, str, str, str, int, int, int, int, str]


@dataclass(frozen=True)
class HuntOptions:
    """The options for marking hunts.

    Attributes:
        problems: The problems of the hunts.
        seed: The seed with which the hunts were handed out. Mended programs are graded on cases that are drawn from it.
        least: The lowest level of isolation that is accepted.
        deadlines: The file with due dates and closing dates.
        roster: A gradebook of the course system, which says who is in the class.
        formats: The gradebooks to write.
    """

    problems: Sequence[Problem]
    seed: int
    least: Level
    deadlines: Path | None = None
    roster: Path | None = None
    formats: Sequence[str] = ()


@dataclass(frozen=True)
class _Class:
    """The sheets that a class handed in, and its learners.

    Attributes:
        sheets: The reader's messages by learner, in the order of the items of `intake`.
        others: By learner, the reason why a sheet belongs to somebody else.
        intake: The submissions.
        enrolled: The roster; None if there is none.
        enrollment: The learners on the roster; None if there is none.
    """

    sheets: Mapping[str, Mapping[str, Any]]
    others: Mapping[str, str]
    intake: Intake
    enrolled: roster.Roster | None
    enrollment: roster.Enrollment | None

    def notes(self) -> Iterator[str]:
        """Yields the notes on the folder, and on who is not in the roster."""
        yield from (*self.intake.notes, *(self.enrollment.notes if self.enrollment else ()))


def mark(submissions: Path, results: Path, options: HuntOptions) -> Iterator[str]:
    """Marks the sheets and programs of a class, writes tables, and yields lines for the terminal. Raises
    CommandError."""
    if other := [name for name in options.formats if name not in gradebook.GRADEBOOKS]:
        raise UsageError(f"--hunts has gradebooks only: --format {' or '.join(gradebook.GRADEBOOKS)}, not {other[0]}.")
    rules = deadlines.read(options.deadlines) if options.deadlines else None
    class_ = _read(submissions, options)
    yield from (f"Note: {note}." for note in class_.notes())
    rows = _rows(class_, options)
    points = FULL * _most_hunts(rows, class_.intake)
    records = list(_records(class_.intake, rows, points, rules))
    yield from map(_said, (record for record in records if record.file))
    results.mkdir(parents=True, exist_ok=True)
    write_csv(results / TABLE, HEADER, rows)
    marked = counted(sum(bool(row[2]) for row in rows), "hunt")
    yield f"{marked} of {counted(len(class_.sheets), 'learner')}: {results / TABLE}"
    column = [Assignment(HUNTS, "Hunts", points)]
    yield from map(str, _gradebooks(records, class_, column, results, options))


def _read(submissions: Path, options: HuntOptions) -> _Class:
    """Reads the sheets in `submissions`, and enrolls the learners. Raises UsageError, also if there is no sheet."""
    enrolled = roster.read(options.roster) if options.roster else None
    first, *found = reader.messages(submissions, "sheets", [])
    people = {name: Person(name, tuple(ids), tuple(canvas)) for name, ids, canvas in first["people"]}
    sheets = {message["learner"]: message for message in found}
    others = _sheets_of_others(people, {name: (one["value"] or {}).get("of", "") for name, one in sheets.items()})
    handed_in = {name: sheets[name] for name in sorted(sheets) if _handed_in(sheets[name])}
    if not any("of" in (sheet["value"] or {}) for sheet in handed_in.values()):
        raise UsageError(f"Nobody in {submissions} handed in a sheet: it must be called {assigned.SHEET}.")
    intake = Intake(first["layout"], people, [], [_item(sheet) for sheet in handed_in.values()], [], first["notes"])
    enrollment = roster.enroll(enrolled, intake) if enrolled else None
    return _Class(handed_in, others, intake, enrolled, enrollment)


def _rows(class_: _Class, options: HuntOptions) -> list[Row]:
    """Marks all sheets: a row for each hunt, with the name that the roster has for the learner, if it has another."""
    rows = list[Row]()
    with closing(ForkServer()) as fork_server:
        for (name, sheet), item in zip(class_.sheets.items(), class_.intake.items, strict=True):
            own = _of_learner(sheet, class_.others.get(name, ""), options, fork_server)
            rows += [(item.learner, *row[1:]) for row in own]
    return rows


def _most_hunts(rows: Sequence[Row], intake: Intake) -> int:
    """Counts the hunts in `rows` of the learner with the most of them."""
    return max(sum(row[0] == item.learner and bool(row[2]) for row in rows) for item in intake.items)


def _said(record: Record) -> str:
    """Returns a line for the terminal: a learner's points, and the mark if it was late."""
    late = f", {record.late}: {record.mark:g}" if record.late else ""
    return f"{one_line(record.learner)}: {record.score} of {record.points} points{late}"


def _gradebooks(
    records: Sequence[Record], class_: _Class, column: Sequence[Assignment], folder: Path, options: HuntOptions
) -> Iterator[Path]:
    """Writes the gradebooks that were asked for, and that of a roster."""
    enrollment, people = class_.enrollment, class_.intake.people
    if "canvas" in options.formats:
        on_roster = set(enrollment.learner_of.values()) if enrollment else set(people)
        listed = [record for record in records if record.learner in on_roster]
        yield gradebook.write_canvas(listed, people, column, folder / f"{HUNTS}-canvas.csv")
    if class_.enrolled and enrollment:
        yield gradebook.write_export(class_.enrolled, enrollment, records, column, folder / f"{HUNTS}-gradebook.csv")


def _handed_in(message: Mapping[str, Any]) -> bool:
    return bool(message["fault"] or message["failed"] or message["value"])


def _item(message: Mapping[str, Any]) -> IntakeItem:
    """Returns a learner's sheet as other submissions are known."""
    sheet = message["value"] or {}
    time = sheet.get("submitted", "")
    submitted = datetime.fromisoformat(time) if time else None
    return IntakeItem(
        message["learner"], HUNTS, sheet.get("file", assigned.SHEET), submitted=submitted, late=sheet.get("late", False)
    )


def _records(intake: Intake, rows: Sequence[Row], points: int, rules: Deadlines | None) -> Iterator[Record]:
    """Yields the record of each learner, also of those who handed in nothing. Late days are for problems, and not spent
    on hunts."""
    items, directory = {item.learner: item for item in intake.items}, Directory(intake.people.values())
    for learner in intake.learners:
        person, item = intake.people[learner], items.get(learner, IntakeItem(learner, HUNTS))
        own = replace(rules, late_days=0, own_late_days={}).for_section(person.section) if rules else None
        attempt = Attempt(
            HUNTS, learner, 1, sum(row[7] for row in rows if row[0] == learner), item.submitted, item.late
        )
        settled = deadlines.settle([attempt], directory.words(person), own, best=True)[HUNTS]
        yield Record(
            learner, HUNTS, "", item.file, "", attempt.score, points, adjusted=settled.adjusted, late=settled.lateness,
            times=settled.times, excused=settled.excused,
        )  # fmt: skip


def _sheets_of_others(people: Mapping[str, Person], of: Mapping[str, str]) -> dict[str, str]:
    """Returns, for each learner whose sheet belongs to somebody else, the reason: it names another learner, or several
    handed it in."""
    directory, told = Directory(people.values()), dict[str, str]()
    for name, named in of.items():
        if named in directory:
            if people[name] not in directory.meant(named):
                told[name] = f"the sheet is that of {one_line(named)}"
        elif named and (same := sorted(one_line(other) for other, its in of.items() if its == named and other != name)):
            told[name] = f"the sheet of {one_line(named)} was handed in by {', '.join(same)}, too"
    return told


def _of_learner(message: Mapping[str, Any], others: str, options: HuntOptions, workers: Workers) -> Iterator[Row]:
    """Yields a row for each hunt on the learner's sheet."""
    name, sheet = message["learner"], message["value"] or {}
    unreadable = MESSAGE if message["fault"] else message["failed"]
    note = f"the sheet cannot be read: {unreadable}" if unreadable else sheet.get("unreadable", "")
    if note:
        yield (name, "", "", "", 0, 0, 0, 0, note)
    if "of" not in sheet:
        return
    of, seen = sheet["of"], set[str]()
    for answer in (Answer(*row) for row in sheet["answers"]):
        hunt = one_line(answer.file.removesuffix(".py"))
        program = None if others else assigned.assigned(options.problems, options.seed, of, answer)
        if program is None or answer.id in seen:
            yield (name, one_line(of), hunt, "", 0, 0, 0, 0, others or "not a hunt of this learner")
            continue
        seen.add(answer.id)
        line = int(answer.line in program.fault)
        idea = int(answer.idea == LETTERS[program.answer])
        mend, note = _mend(answer, program, sheet, options, workers)
        yield (name, one_line(of), hunt, program.hunt.problem.label, line, idea, mend, line + idea + mend, note)


def _mend(
    answer: Answer, program: Program, sheet: Mapping[str, Any], options: HuntOptions, workers: Workers
) -> tuple[int, str]:
    """Returns the point for the mend, and a note on why there is none."""
    problem, text = program.hunt.problem, sheet["texts"].get(answer.file)
    if text is None:
        return 0, sheet["refused"].get(answer.file, f"no file {one_line(answer.file)}")
    if hunting.is_rewrite(program, text):
        return 0, "a rewrite"
    source = run_program.source_of(problem, text)
    drawn = cases.draw_all(problem, options.seed)
    failed = next(run_program.failures(problem, source, workers, cases=drawn, least=options.least), None)
    return (0, f"fails: {failed.result.check.name}") if failed else (1, "")
