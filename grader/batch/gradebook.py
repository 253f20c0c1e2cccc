"""Scores in the formats of course systems: a file for each learner, or one gradebook for the class."""

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from commandline import files
from grader.batch.store import Record, write_csv
from grader.course import catalog
from grader.report.formats import FORMATS, render
from grader.report.redacted import redacted

_WITH_ID = re.compile(r"(?P<name>.*) \((?P<id>[^()]+)\)")


def write_reports(records: Sequence[Record], folder: Path, format_: str) -> Path:
    """Writes a redacted report for each learner to a folder named after the format. Returns the folder."""
    target = folder / format_
    target.mkdir(parents=True, exist_ok=True)
    by_learner: dict[str, list[Record]] = {}
    for record in records:
        by_learner.setdefault(record.learner, []).append(record)
    names: set[str] = set()
    for learner, own_records in by_learner.items():
        name = _filename(learner)
        while name.casefold() in names:
            name += "_"
        names.add(name.casefold())
        files.write(
            target / f"{name}.{FORMATS[format_][0]}",
            render([redacted(record.report) for record in own_records if record.report], format_),
        )
    return target


def write_canvas(records: Sequence[Record], folder: Path) -> Path:
    """Writes canvas.csv: a row for each learner, a column for each problem, and the "Points Possible" row."""
    problems = sorted({record.problem for record in records})
    titles = [f"{problem.label} {problem.title}" for problem in map(catalog.load, problems)]
    points = [catalog.load(name).points for name in problems]
    scores = {(record.learner, record.problem): record.score for record in records}
    rows: list[Sequence[object]] = [("    Points Possible", "", "", "", "", *points)]
    for learner in sorted({record.learner for record in records}):
        name, number = _identity(learner)
        rows.append((name, number, "", "", "", *(scores.get((learner, problem), 0) for problem in problems)))
    path = folder / "canvas.csv"
    write_csv(path, ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", *titles), rows)
    return path


GRADEBOOKS = {"canvas": write_canvas}


def _identity(learner: str) -> tuple[str, str]:
    """The learner's name, and the id that the intake appended to it."""
    match = _WITH_ID.fullmatch(learner)
    return (match["name"], match["id"]) if match else (learner, "")


def _filename(learner: str) -> str:
    """A file name that is valid on any file system and contains no path."""
    text = unicodedata.normalize("NFC", learner)
    safe = "".join(c if c.isalnum() or c in " -_()@+." else "_" for c in text).strip(" .")
    return safe[:100] or "learner"
