"""Scores in the formats of course systems: a file for each learner, or one gradebook for the class."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from commandline import files
from commandline.errors import CommandError
from grader.batch.faults import Faults
from grader.batch.records import Person, Record, by_learner, collated
from grader.batch.roster import Enrollment, Roster
from grader.batch.tables import write_csv
from grader.problem import Problem
from grader.report.formats import FORMATS, render
from grader.report.json_report import PublicReport

EXCUSED = "EX"  # in place of a mark, for Canvas
_GRADE, _MAXIMUM = "Grade", "Maximum Grade"  # of a grading worksheet of Moodle
# Canvas skips a column whose name contains one of these (lib/gradebook_importer.rb of canvas-lms).
_SKIPPED = re.compile("(?:Current|Final) (?:Score|Points|Grade)|Override (?:Score|Grade|Status)")


@dataclass(frozen=True)
class Assignment:
    """A column of a gradebook: the name of its problem in records, its own title, and its points."""

    problem: str
    title: str
    points: int

    @classmethod
    def of(cls, problem: Problem) -> "Assignment":
        """Returns the assignment of a problem, with a title that Canvas neither skips nor confuses with another
        assignment's."""
        name = _SKIPPED.sub(lambda match: match[0].lower(), f"{problem.label} {problem.title}")
        # Canvas takes a number in parentheses for an assignment's id.
        return cls(problem.name, re.sub(r" \((\d+)\)$", r" [\1]", name), problem.points)


def write_reports(
    records: Sequence[Record], folder: Path, format_: str, faults: Faults, later: Sequence[Record] = ()
) -> Path:
    """Writes a report for each learner to a folder named after the format, without what the learner is excused from.

    `later` are the records as learners may read them after the due date. Returns the folder.

    A learner whose report cannot be written has none, and the error is logged.
    """
    target = folder / format_
    target.mkdir(parents=True, exist_ok=True)
    names = filenames({record.learner for record in records})
    then = by_learner(later)
    for learner, own_records in by_learner(records).items():
        try:
            text = render(_reports(own_records), format_, _reports(then.get(learner, ())))
            files.write(target / f"{names[learner]}.{FORMATS[format_][0]}", text)
        except CommandError:
            raise
        except Exception as error:  # whatever it is, the rest of the class gets its reports
            faults.add(learner, error)
    return target


def _reports(records: Iterable[Record]) -> list[PublicReport]:
    return [record.report for record in records if record.report and not record.excused]


def write_canvas(
    records: Sequence[Record], people: Mapping[str, Person], assignments: Sequence[Assignment], path: Path
) -> Path:
    """Writes a gradebook for Canvas: a row for each learner, a column for each assignment, and the "Points Possible"
    row."""
    marks = {(record.learner, record.problem): EXCUSED if record.excused else record.mark for record in records}
    rows: list[Sequence[object]] = [("    Points Possible", "", "", "", "", *(each.points for each in assignments))]
    for learner in sorted({record.learner for record in records}, key=collated):
        person = people.get(learner, Person(learner))
        number = "".join(person.canvas[:1])
        # Without Canvas' own id, it finds a student by the other two, or by the name.
        other = "" if number or person.ids == (learner,) else "".join(person.ids[:1])
        login = other if "@" in other else ""
        scores = (marks.get((learner, each.problem), 0) for each in assignments)
        rows.append((person.name, number, other.removeprefix(login), login, "", *scores))
    write_csv(
        path, ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", *(each.title for each in assignments)), rows
    )
    return path


def write_export(
    roster: Roster, enrollment: Enrollment, records: Sequence[Record], assignments: Sequence[Assignment], path: Path
) -> Path:
    """Writes the export of a roster with the marks. Columns of the assignments that it has are filled, others are
    appended.

    In a grading worksheet of Moodle, `Grade` is the total, in proportion to its `Maximum Grade`. What a learner is
    excused from is `EX` for Canvas, blank for other systems, and in no total.
    """
    marks = {(record.learner, record.problem): record.mark for record in records}
    excused = {(record.learner, record.problem) for record in records if record.excused}
    own = {each.title: _existing(each.title, roster.columns) or each.title for each in assignments}
    columns = [*roster.columns, *(column for column in own.values() if column not in roster.columns)]
    rows = []
    for place, row in enumerate(roster.rows):
        filled = dict(row)
        learner = enrollment.learner_of.get(place)
        if learner:
            total, possible = 0.0, 0
            for each in assignments:
                if (learner, each.problem) in excused:
                    filled[own[each.title]] = EXCUSED if roster.system == "Canvas" else ""
                    continue
                mark = marks.get((learner, each.problem), 0)
                filled[own[each.title]] = str(mark)
                total, possible = total + mark, possible + each.points
            if {_GRADE, _MAXIMUM} <= set(roster.columns):
                grade = f"{total / possible * _number(row[_MAXIMUM], possible):.2f}" if possible else ""
                filled[_GRADE] = grade
        elif "Points Possible" in "".join(row.values()):
            filled |= {own[each.title]: str(each.points) for each in assignments}
        rows.append([filled.get(column, "") for column in columns])
    write_csv(path, columns, rows)
    return path


def _existing(name: str, columns: Sequence[str]) -> str | None:
    """Returns the export's column of an assignment: Canvas puts the assignment's id behind its name."""
    return next((column for column in columns if re.fullmatch(re.escape(name) + r"(?: \(\d+\))?", column)), None)


def _number(text: str, default: float) -> float:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return default


GRADEBOOKS = {"canvas": write_canvas}
MOODLE = "moodle.zip"  # the pages of feedback, which move aside as gradebooks do
_LONGEST = 150  # bytes of a file name without its extension; file systems have 255
# Windows takes these for devices, with any extension.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}


EARLIER = "earlier"  # the folder of the gradebooks that an earlier batch wrote


def files_in(folder: Path) -> list[Path]:
    """Returns the gradebooks, and the other files for a course system, in a folder."""
    names = [MOODLE, *(f"{name}{raw}.csv" for name in (*GRADEBOOKS, "gradebook") for raw in ("", "-raw"))]
    return [folder / name for name in names if (folder / name).is_file()]


def filenames(learners: Iterable[str]) -> dict[str, str]:
    """Returns a file name without an extension for each learner, which is valid on any file system and contains no
    path."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for learner in sorted(learners):
        text = unicodedata.normalize("NFC", learner)
        safe = "".join(c if c.isalnum() or c in " -_()@+." else "_" for c in text).strip(" .")
        name = safe.encode()[:_LONGEST].decode(errors="ignore").strip(" .") or "learner"
        if name.partition(".")[0].strip().casefold() in _DEVICES:
            name = f"_{name}"
        while name.casefold() in taken:
            name += "_"
        taken.add(name.casefold())
        names[learner] = name
    return names
