"""The summary of a class."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import html5lib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.batch import class_page, similarity, summary
from grader.batch.records import Record
from grader.course import catalog
from tests.grader.batch.conftest import GOOD, NAME, OWN

pytestmark = pytest.mark.fast

SCRIPT = "<script>alert(1)</script>"
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
    assert row.misconceptions == [("no shift", ["bob", "<cleo>"])]
    assert list(counted.records) == ["<cleo>", "ada", "bob", "dan"]
    assert counted.verdicts == {"PASS": 1, "FAIL": 2, "NOT ATTEMPTED": 1}


def test_tables_and_page(tmp_path: Path):
    summarized = summary.summarize(RECORDS)
    paths = summary.write_all(summarized, class_page.document(summarized), tmp_path)
    assert [path.name for path in paths] == ["summary.csv", "misconceptions.csv", "similar.csv", "summary.html"]
    with paths[1].open(encoding="utf-8-sig", newline="") as file:
        assert list(csv.reader(file)) == [["problem", "misconception", "learners"], [NAME, "no shift", "2"]]
    page = paths[3].read_text(encoding="utf-8")
    for text in ("4 learners, 1 problem", "1 of 4 passed", "no shift", "Similar submissions"):
        assert text in page


def test_the_page_is_valid_and_escapes_what_learners_wrote():
    source = f"# </pre>{SCRIPT}\n{OWN}"
    records = [
        Record(name, NAME, "", f"{SCRIPT}.py", "ERROR", 0, POINTS, SCRIPT, SCRIPT, SCRIPT, source, late=SCRIPT)
        for name in ("eve", SCRIPT)
    ]
    page = class_page.document(summary.summarize(records, [("eve", SCRIPT, SCRIPT), ("", SCRIPT, "")]))
    assert SCRIPT not in page
    assert page.count("<script>") == 1
    assert "</pre>&lt;" not in page
    html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    assert not re.search(r"src=|url\(|href=\"[^#]", page), "nothing is fetched"


def test_an_empty_class_has_a_page():
    assert "0 learners" in class_page.document(summary.summarize([]))


def pairs_of(*texts: str) -> Sequence[similarity.Pair]:
    records = [Record(str(number), NAME, "", "", "PASS", 6, 6, source=text) for number, text in enumerate(texts)]
    return summary.summarize(records).duplicates


def test_shared_parts_are_marked_and_no_others():
    one, other = GOOD + OWN, "x = 1\n" + OWN.replace("kept", "mine") + "\ny = [1]\n"
    (pair,) = pairs_of(one, other)
    pieces, others = similarity.compared(pair, one, other)
    assert "".join(piece.text for piece in pieces) == one
    assert "".join(piece.text for piece in others) == other
    assert "while total and not total[-1]" in "".join(piece.text for piece in pieces if piece.shared)
    assert not any("optax" in piece.text for piece in pieces if piece.shared), "the reference is nobody's own"
    assert "mine[place : place + width]" in "".join(piece.text for piece in others if piece.shared)


@given(st.text(max_size=80), st.text(max_size=80))
def test_the_pieces_of_any_text_are_that_text(one: str, other: str):
    pair = similarity.Pair(NAME, "ada", "bob", 1)
    for text, pieces in zip((one, other), similarity.compared(pair, one + OWN, OWN + other), strict=True):
        assert "".join(piece.text for piece in pieces) in (text + OWN, OWN + text)


@given(st.lists(st.integers(0, 500)), st.integers(0, 500), st.integers(0, 3))
def test_a_histogram_has_every_learner_once(marks: list[int], points: int, missing: int):
    marks = [min(mark, points) for mark in marks]
    bars = class_page.bars(marks, points, missing)
    assert sum(bar.count for bar in bars) == len(marks) + missing
    assert len(bars) <= 14
