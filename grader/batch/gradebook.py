"""Scores in the formats of course systems: a file for each learner, or one gradebook for the class."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from commandline import files
from commandline.errors import CommandError
from grader.batch.faults import Faults
from grader.batch.records import Person, Record, by_learner, collated
from grader.batch.roster import EXCUSED, Assignment
from grader.batch.tables import write_csv
from grader.report.formats import FORMATS, render
from grader.report.json_report import PublicReport


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


GRADEBOOKS = {"canvas": write_canvas}
MOODLE = "moodle.zip"  # the pages of feedback, which move aside as gradebooks do
_LONGEST = 150  # bytes of a file name without its extension; file systems have 255
# Windows takes these for devices, with any extension.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}


EARLIER = "earlier"  # the folder of the gradebooks that an earlier batch wrote


def files_in(folder: Path) -> list[Path]:
    """The gradebooks, and what else is for a course system, that are in a folder."""
    names = [MOODLE, *(f"{name}{raw}.csv" for name in (*GRADEBOOKS, "gradebook") for raw in ("", "-raw"))]
    return [folder / name for name in names if (folder / name).is_file()]


def filenames(learners: Iterable[str]) -> dict[str, str]:
    """A file name without an extension for each learner, which is valid on any file system and contains no path."""
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
