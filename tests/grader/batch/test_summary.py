"""The summary of a class."""

import csv
from pathlib import Path

import pytest

from grader.batch import summary
from grader.batch.records import Record
from grader.course import catalog
from tests.grader.batch.conftest import NAME

pytestmark = pytest.mark.fast

POINTS = catalog.load(NAME).points
RECORDS = [
    Record("ada", NAME, "", "", "PASS", POINTS, POINTS),
    Record("bob", NAME, "", "", "FAIL", 1, POINTS, misconception="no shift"),
    Record("<cleo>", NAME, "", "", "FAIL", 1, POINTS, misconception="no shift"),
    Record("dan", NAME, "", "", "NOT ATTEMPTED", 0, POINTS),
]


def test_counts():
    counted = summary.summarize(RECORDS)
    (row,) = counted.problems
    assert (row.learners, row.attempted, row.passed, row.pass_rate) == (4, 3, 1, 0.25)
    assert row.mean_score == (POINTS + 2) / 4
    assert row.misconceptions == [("no shift", 2)]
    assert counted.totals == {"<cleo>": 1, "ada": POINTS, "bob": 1, "dan": 0}
    assert counted.verdicts == {"PASS": 1, "FAIL": 2, "NOT ATTEMPTED": 1}


def test_tables_and_page(tmp_path: Path):
    paths = summary.write_all(summary.summarize(RECORDS), tmp_path)
    assert [path.name for path in paths] == ["summary.csv", "misconceptions.csv", "similar.csv", "summary.html"]
    with paths[1].open(encoding="utf-8-sig", newline="") as file:
        assert list(csv.reader(file)) == [["problem", "misconception", "learners"], [NAME, "no shift", "2"]]
    page = paths[3].read_text(encoding="utf-8")
    for text in ("4 learners, 1 problem", "1 of 4", "no shift", "Near-duplicate submissions"):
        assert text in page


def test_the_page_escapes_what_learners_wrote():
    records = [Record("eve", NAME, "", "", "FAIL", 0, POINTS, misconception="<script>")]
    assert "<script>" not in summary.page(summary.summarize(records))
