"""Gradebooks and reports for course systems."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from grader.batch import gradebook
from grader.batch.faults import Faults
from grader.batch.gradebook import Assignment
from grader.batch.records import Person, Record, total
from grader.course import catalog
from grader.judge import judge
from grader.judge.verdict import Verdict
from grader.report.json_report import PublicReport
from tests.grader.batch.conftest import NAME

pytestmark = pytest.mark.fast

PROBLEM = catalog.load(NAME)


def record(learner: str, score: int) -> Record:
    report = PublicReport.of(judge.refused(PROBLEM, f"{NAME}.py", Verdict.ERROR, "unreadable"))
    return Record(learner, NAME, "", f"{NAME}.py", "FAIL", score, PROBLEM.points, report=report)


def table(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


PEOPLE = {
    "Ada Lovelace (17)": Person("Ada Lovelace (17)", ("17",), ("17",)),
    "Bob (b@x.org)": Person("Bob (b@x.org)", ("b@x.org",)),
    "Eve (17)": Person("Eve (17)", ("Eve (17)",)),
}


def test_canvas(tmp_path: Path):
    """Only an id that the export gives is one: a name can end in anybody's."""
    records = [record("Ada Lovelace (17)", 4), record("=cmd", 0), record("Bob (b@x.org)", 3), record("Eve (17)", 6)]
    path = gradebook.write_canvas(records, PEOPLE, [Assignment.of(PROBLEM)], tmp_path / "canvas.csv")
    assert table(path) == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", f"{PROBLEM.label} {PROBLEM.title}"],
        ["    Points Possible", "", "", "", "", str(PROBLEM.points)],
        ["'=cmd", "", "", "", "", "0"],
        ["Ada Lovelace", "17", "", "", "", "4"],
        ["Bob", "", "", "b@x.org", "", "3"],
        ["Eve (17)", "", "", "", "", "6"],
    ]


def test_what_a_learner_is_excused_from_is_in_no_gradebook_and_no_report(tmp_path: Path):
    records = [replace(record("Ada Lovelace (17)", 4), excused=True), record("=cmd", 3)]
    rows = table(gradebook.write_canvas(records, PEOPLE, [Assignment.of(PROBLEM)], tmp_path / "canvas.csv"))
    assert [row[-1] for row in rows[2:]] == ["3", "EX"]
    gradebook.write_reports(records, tmp_path, "text", Faults(tmp_path / "log"))
    assert (tmp_path / "text" / "Ada Lovelace (17).txt").read_text() == "\n"
    assert total(records) == (3, PROBLEM.points)


def test_the_names_of_reports_are_safe_and_different(tmp_path: Path):
    records = [record(learner, 0) for learner in ("../Ada", ".._ada", "Zoë", "...")]
    folder = gradebook.write_reports(records, tmp_path, "text", Faults(tmp_path / "log"))
    assert folder == tmp_path / "text"
    assert sorted(path.name for path in folder.iterdir()) == ["Zoë.txt", "_Ada.txt", "_ada_.txt", "learner.txt"]


def test_a_name_of_long_letters_or_of_a_device_is_a_file_name_anywhere(tmp_path: Path):
    learners = ("漢" * 90, "CON", "nul.x", "Lpt1 (3)", "console")
    names = gradebook.filenames(learners)
    assert len(names["漢" * 90].encode()) == 150
    assert [names[name] for name in learners[1:]] == ["_CON", "_nul.x", "Lpt1 (3)", "console"]
    folder = gradebook.write_reports([record(name, 0) for name in learners], tmp_path, "text", Faults(tmp_path / "log"))
    assert len([*folder.iterdir()]) == len(learners)
