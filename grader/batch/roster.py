"""A course system's export of its gradebook: who is in the class, and the columns that an import needs back."""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from commandline.errors import UsageError
from commandline.text import one_line
from grader.batch.intake import Intake
from grader.batch.records import Person, Record
from grader.batch.tables import write_csv
from grader.problem import Problem

MOST_BYTES = 64 << 20
# The columns that identify a student, the most reliable first.
_IDS = {
    "Canvas": ("ID", "SIS User ID", "SIS Login ID", "Integration ID"),
    "Moodle": ("Identifier", "ID number", "Username", "Email address"),
}
_GRADE, _MAXIMUM, _SUBMITTED = "Grade", "Maximum Grade", "Last modified (submission)"
_MOODLE_TIMES = ("%A, %d %B %Y, %I:%M %p", "%A, %d %B %Y, %H:%M", "%d %B %Y, %I:%M %p", "%d %B %Y, %H:%M")
# Canvas skips a column whose name contains one of these (lib/gradebook_importer.rb of canvas-lms).
_SKIPPED = re.compile("(?:Current|Final) (?:Score|Points|Grade)|Override (?:Score|Grade|Status)")


@dataclass(frozen=True)
class Roster:
    """The rows of an export by column. `system` is Canvas or Moodle."""

    system: str
    columns: Sequence[str]
    rows: Sequence[Mapping[str, str]]

    @property
    def _name_columns(self) -> Sequence[str]:
        names = ("Student", "Full name", "First name", "Last name", "Surname")
        return [column for column in self.columns if column in names]

    def ids(self, row: Mapping[str, str]) -> tuple[str, ...]:
        """What a row identifies its student by, the most reliable first; empty where it has none."""
        values = [row.get(column, "").strip() for column in _IDS[self.system]]
        return tuple(re.sub(r"^Participant (?=\d)", "", value) for value in values)

    def name(self, row: Mapping[str, str]) -> str:
        """A student's name for reports, with the id behind it."""
        name = " ".join(row[column].strip() for column in self._name_columns).strip()
        number = next(filter(None, self.ids(row)))
        return one_line(f"{name} ({number})" if name else number)


def read(file: Path) -> Roster:
    """Reads an export. Raises UsageError if it is not a gradebook of Canvas or Moodle."""
    try:
        with file.open("rb") as stream:
            text = stream.read(MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"The roster {file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UsageError(
            f"The roster {file} is not UTF-8 text; use the file as the course system exported it."
        ) from None
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    try:
        table = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    except csv.Error as error:
        raise UsageError(f"The roster {file} is not a CSV file: {error}.") from None
    columns = table[0] if table else []
    system = next((system for system, ids in _IDS.items() if set(ids) & set(columns)), None)
    if system is None or (system == "Canvas" and "Student" not in columns):
        raise UsageError(
            f"The roster {file} is no export of a gradebook: it needs the columns Student and ID (Canvas), or Identifier or "
            "Email address (Moodle)."
        )
    if len(set(columns)) < len(columns):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise UsageError(f"The roster {file} has two columns named {twice!r}; rename one of them.")
    padded = [[*row, *[""] * len(columns)][: len(columns)] for row in table[1:]]
    roster = Roster(system, columns, [dict(zip(columns, row, strict=True)) for row in padded])
    _require_different_students(file, roster)
    return roster


def _require_different_students(file: Path, roster: Roster) -> None:
    """Raises UsageError if two rows have the same id in the first column that identifies students."""
    column = next(column for column in _IDS[roster.system] if column in roster.columns)
    names: dict[str, str] = {}
    for row in roster.rows:
        number = row[column].strip()
        if number and number in names:
            raise UsageError(
                f"The roster {file} has the {column} {number} twice, for {names[number]} and {roster.name(row)}; correct one."
            )
        names[number] = roster.name(row) if any(roster.ids(row)) else ""


@dataclass(frozen=True)
class Enrollment:
    """The class by the roster: who each learner is, and the learner of each row, by the row's place."""

    people: list[Person]
    learner_of: Mapping[int, str]
    notes: list[str]


def enroll(roster: Roster, intake: Intake) -> Enrollment:
    """Matches the rows with the learners by id, and adds students who submitted nothing to the intake.

    A Moodle export has the times of submission here, and not in its archive: they are added to the items that have none.
    """
    rows_of: dict[str, list[tuple[int, int]]] = defaultdict(list)  # by id: how reliable it is, the row's place
    for place, row in enumerate(roster.rows):
        for rank, number in enumerate(roster.ids(row)):
            if number:
                rows_of[number.casefold()].append((rank, place))
    learner_of: dict[int, str] = {}
    notes = []
    for learner in intake.learners:
        places = {min(found)[1] for number in intake.ids[learner] if (found := rows_of.get(number.strip().casefold()))}
        if not places:
            notes.append(f"{learner!r} is not in the roster")
        for place in places:
            if other := learner_of.get(place):
                notes.append(
                    f"{learner!r} and {other!r} are the same student of the roster, which gets the marks of the latter"
                )
            else:
                learner_of[place] = learner
    for place, row in enumerate(roster.rows):
        if place not in learner_of and any(roster.ids(row)):
            learner_of[place] = _unique(roster.name(row), intake.learners)
            intake.learners.append(learner_of[place])
            intake.ids[learner_of[place]] = tuple(filter(None, roster.ids(row)))
    intake.learners.sort()
    notes += _add_times(roster, intake, learner_of)
    canvas: dict[str, list[str]] = defaultdict(list)
    for place, learner in learner_of.items() if roster.system == "Canvas" else ():
        canvas[learner] += filter(None, [roster.ids(roster.rows[place])[0]])
    for place, learner in learner_of.items():  # the roster may know more ids, which deadlines may use
        known = intake.ids[learner]
        intake.ids[learner] = (
            *known,
            *(number for number in roster.ids(roster.rows[place]) if number and number not in known),
        )
    people = [Person(learner, intake.ids[learner], tuple(canvas[learner])) for learner in intake.learners]
    return Enrollment(people, learner_of, notes)


def _unique(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "*"
    return name


def _add_times(roster: Roster, intake: Intake, learner_of: Mapping[int, str]) -> list[str]:
    if _SUBMITTED not in roster.columns:
        return []
    times: dict[str, datetime] = {}
    unread = ""
    for place, learner in learner_of.items():
        text = roster.rows[place][_SUBMITTED].strip()
        if time := _time(text):
            times[learner] = time
        elif text not in ("", "-"):
            unread = text
    intake.items[:] = [
        replace(item, submitted=item.submitted or times.get(item.learner)) if item.file else item
        for item in intake.items
    ]
    if unread:
        return [f"the roster's times, such as {unread!r}, are not in English and were ignored; export it in English"]
    return []


def _time(text: str) -> datetime | None:
    for form in _MOODLE_TIMES:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    return None


def assignment(problem: Problem) -> str:
    """The name of a problem's assignment in a gradebook: one that Canvas neither skips nor takes for another assignment's."""
    name = _SKIPPED.sub(lambda match: match[0].lower(), f"{problem.label} {problem.title}")
    return re.sub(r" \((\d+)\)$", r" [\1]", name)  # Canvas takes a number in parentheses for an assignment's id


def write_gradebook(
    roster: Roster, enrollment: Enrollment, records: Sequence[Record], problems: Sequence[Problem], path: Path
) -> Path:
    """Writes the export with the marks. Columns of the problems that it has are filled, others are appended.

    In a grading worksheet of Moodle, `Grade` is the total, in proportion to its `Maximum Grade`.
    """
    marks = {(record.learner, record.problem): record.mark for record in records}
    names = [assignment(problem) for problem in problems]
    own = {name: _existing(name, roster.columns) or name for name in names}
    columns = [*roster.columns, *(column for column in own.values() if column not in roster.columns)]
    rows = []
    possible = sum(problem.points for problem in problems)
    for place, row in enumerate(roster.rows):
        filled = dict(row)
        learner = enrollment.learner_of.get(place)
        if learner:
            total = 0.0
            for problem, name in zip(problems, names, strict=True):
                mark = marks.get((learner, problem.name), 0)
                filled[own[name]] = str(mark)
                total += mark
            if {_GRADE, _MAXIMUM} <= set(roster.columns):
                filled[_GRADE] = f"{total / possible * _number(row[_MAXIMUM], possible):.2f}"
        elif "Points Possible" in "".join(row.values()):
            filled |= {own[name]: str(problem.points) for problem, name in zip(problems, names, strict=True)}
        rows.append([filled.get(column, "") for column in columns])
    write_csv(path, columns, rows)
    return path


def _existing(name: str, columns: Sequence[str]) -> str | None:
    """The export's column of an assignment: Canvas puts the assignment's id behind its name."""
    return next((column for column in columns if re.fullmatch(re.escape(name) + r"(?: \(\d+\))?", column)), None)


def _number(text: str, default: float) -> float:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return default
