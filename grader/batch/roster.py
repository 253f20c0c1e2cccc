"""A course system's export of its gradebook: who is in the class, and the columns that an import needs back."""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from commandline.errors import UsageError
from commandline.text import counted, one_line
from grader.batch.intake import Intake
from grader.batch.records import Person, folded, without_zeros

MOST_BYTES = 64 << 20
# The columns that identify a student, the most reliable first.
_IDS = {
    "Canvas": ("ID", "SIS User ID", "SIS Login ID", "Integration ID"),
    "Moodle": ("Identifier", "ID number", "Username", "Email address"),
    "GitHub": ("github_username", "username", "identifier", "github_id", "email"),  # GitHub Classroom, Classroom 50
}
# Columns of Moodle's exports in German and French.
_FOREIGN = ("ID-Nummer", "Anmeldename", "E-Mail-Adresse", "Vollständiger "
    "Name", "Identifiant", "Numéro d'identification",
            "Nom d'utilisateur", "Adresse de courriel", "Nom complet")  # fmt: skip
_TEST_STUDENT = "Student, Test"  # Canvas' own, which belongs to the teacher's preview
_SECTIONS = ("Section", "Group", "section")
_SUBMITTED = "Last modified (submission)"
_MOODLE_TIMES = ("%A, %d %B %Y, %I:%M %p", "%A, %d %B %Y, %H:%M", "%d %B %Y, %I:%M %p", "%d %B %Y, %H:%M")


@dataclass(frozen=True)
class Roster:
    """The rows of an export by column. `system` is Canvas, Moodle or GitHub."""

    system: str
    columns: Sequence[str]
    rows: Sequence[Mapping[str, str]]

    @property
    def _name_columns(self) -> Sequence[str]:
        names = ("Student", "Full name", "First name", "Last name", "Surname", "name", "first_name", "last_name")
        return [column for column in self.columns if column in names]

    def ids(self, row: Mapping[str, str]) -> tuple[str, ...]:
        """Returns the ids by which a row identifies its student, the most reliable first; an empty text for each that
        it lacks."""
        values = [row.get(column, "").strip() for column in _IDS[self.system]]
        return tuple(re.sub(r"^Participant (?=\d)", "", value) for value in values)

    def canvas(self, row: Mapping[str, str]) -> tuple[str, ...]:
        """Returns the user id in Canvas, as far as the row has one."""
        return tuple(filter(None, [self.ids(row)[0]])) if self.system == "Canvas" else ()

    def is_test(self, row: Mapping[str, str]) -> bool:
        """Returns whether the row is Canvas' student for previews, who is no learner."""
        return row.get("Student", "").strip() == _TEST_STUDENT

    def name(self, row: Mapping[str, str]) -> str:
        """Returns a student's name for reports, with the id behind it."""
        name = " ".join(row[column].strip() for column in self._name_columns).strip()
        number = next(filter(None, self.ids(row)))
        return one_line(f"{name} ({number})" if name else number)


def read(file: Path) -> Roster:
    """Reads an export. Raises UsageError if it is neither a gradebook of Canvas or Moodle nor a roster of a GitHub
    classroom."""
    table = _table(file)
    columns = [column.strip() for column in table[0]] if table else []
    while columns and not columns[-1]:  # a spreadsheet adds blank ones
        columns.pop()
    system = _system(file, columns)
    if len(set(columns)) < len(columns):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise UsageError(f"The roster {file} has two columns named {twice!r}; rename one of them.")
    padded = [[*row, *[""] * len(columns)][: len(columns)] for row in table[1:]]
    roster = Roster(system, columns, [dict(zip(columns, row, strict=True)) for row in padded])
    _require_different_students(file, roster)
    return roster


def _table(file: Path) -> list[list[str]]:
    """Reads the rows of a CSV file that are not empty, the header first. Raises UsageError if `file` is not one."""
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
        return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    except csv.Error as error:
        raise UsageError(f"The roster {file} is not a CSV file: {error}.") from None


def _system(file: Path, columns: Sequence[str]) -> str:
    """Returns the system that exports `columns`: Canvas, Moodle or GitHub. Raises UsageError if none does."""
    system = next((system for system, ids in _IDS.items() if set(ids) & set(columns)), None)
    if system and (system != "Canvas" or "Student" in columns):
        return system
    if set(_FOREIGN) & set(columns):
        raise UsageError(
            f"The roster {file} has no English column names; set the language of Moodle to English and export it again."
        )
    raise UsageError(
        f"The roster {file} is no export of a gradebook: it needs the columns Student and ID (Canvas), Identifier or "
        "Email address (Moodle), or github_username (GitHub)."
    )


def _require_different_students(file: Path, roster: Roster) -> None:
    """Raises UsageError if two rows have the same id in the first column that identifies students."""
    column = next(column for column in _IDS[roster.system] if column in roster.columns)
    names: dict[str, str] = {}
    for row in roster.rows:
        number = row[column].strip()
        if number and number in names:
            raise UsageError(
                f"The roster {file} has the {column} {number} twice, for {names[number]} and {roster.name(row)}; "
                "correct one."
            )
        names[number] = roster.name(row) if any(roster.ids(row)) else ""


@dataclass(frozen=True)
class Enrollment:
    """The class by the roster: the learner of each row, by the row's place.

    `joined` are learners who turned out to be the student of another name, which is left.
    """

    learner_of: Mapping[int, str]
    joined: list[tuple[Person, str]]
    notes: list[str]


def enroll(roster: Roster, intake: Intake) -> Enrollment:
    """Matches the rows with the learners by id, and adds students who submitted nothing to the intake.

    A Moodle export has the times of submission here, and not in its archive: they are added to the items that have
    none. Raises UsageError if most learners with submissions are not in the roster: it is another class's.
    """
    places_of = _Places(roster)
    submitters = {item.learner for item in intake.items}
    learner_of: dict[int, str] = {}
    joined, unknown = list[tuple[Person, str]](), list[str]()
    for learner in sorted(intake.learners, key=lambda learner: (learner not in submitters, learner)):
        place = places_of.one(intake.people[learner])
        if place is None:
            unknown.append(learner)
        elif other := learner_of.get(place):
            joined.append((intake.people[learner], other))
            intake.rename(learner, other)
        else:
            learner_of[place] = learner
    strangers = sorted(submitters & set(unknown))
    # A batch of a hub has only what came since the last one.
    if 2 * len(strangers) > len(submitters) and intake.layout != "hub":
        raise UsageError(_other_class(roster, strangers, len(submitters)))
    notes = [f"{learner!r} is not in the roster, and so in no gradebook" for learner in sorted(unknown)]
    notes += [
        f"{person.learner!r} and {other!r} are one student of the roster, with the attempts of both"
        for person, other in joined
    ]
    missing = 0
    for place, row in enumerate(roster.rows):
        if not any(roster.ids(row)) or roster.is_test(row):
            continue
        if place not in learner_of:
            missing += 1
            learner_of[place] = _unique(roster.name(row), intake.people)
        learner = learner_of[place]
        section = one_line(next((row[name].strip() for name in _SECTIONS if row.get(name)), ""))
        known = Person(learner, tuple(filter(None, roster.ids(row))), roster.canvas(row), section)
        intake.people[learner] = intake.people.get(learner, Person(learner)).knowing(known)
    if missing and intake.layout == "Canvas" and not any(item.members for item in intake.items):
        notes.append(
            f"{counted(missing, 'student')} of the roster handed in nothing. Canvas' export has the file of only one "
            "member of each group: if they worked in groups, name these with --groups"
        )
    return Enrollment(learner_of, joined, notes + _add_times(roster, intake, learner_of))


class _Places:
    """Finds the row of a person: by the most reliable id, as it is written, else without leading zeros if that is
    unique."""

    def __init__(self, roster: Roster) -> None:
        self._exact: dict[str, list[tuple[int, int]]] = defaultdict(list)  # by id: how reliable it is, the row's place
        self._loose: dict[str, set[int]] = defaultdict(set)
        for place, row in enumerate(roster.rows):
            for rank, number in enumerate(roster.ids(row)):
                if number and not roster.is_test(row):
                    self._exact[folded(number)].append((rank, place))
                    self._loose[without_zeros(number)].add(place)

    def one(self, person: Person) -> int | None:
        for number in person.ids:
            if found := self._exact.get(folded(number)):
                return min(found)[1]
        for number in person.ids:
            if len(places := self._loose.get(without_zeros(number), set())) == 1:
                return min(places)
        return None


def _other_class(roster: Roster, strangers: Sequence[str], count: int) -> str:
    rows = [roster.name(row) for row in roster.rows if any(roster.ids(row)) and not roster.is_test(row)]
    here, there = (", ".join(map(repr, names[:3])) or "nobody" for names in (strangers, rows))
    return (
        f"{len(strangers)} of {counted(count, 'learner')} with submissions are not in the roster, such as {here}; the "
        f"roster has {there}. Nothing was graded. Give the roster of this class, with the ids that the submissions "
        "have, or leave it out."
    )


def _unique(name: str, taken: Collection[str]) -> str:
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
