"""A test-out: a problem passed by its core alone. It opens what builds on it, and the log keeps how it was passed."""

import json
from pathlib import Path

import pytest

from grader.course import catalog, log, paths
from grader.course.workspace import Workspace
from grader.practice import schedule, short_form
from tests.conftest import Grade

ATTENTION, HEADS = catalog.find("02"), catalog.find("03")
REFERENCE = catalog.solution_text(ATTENTION)


@pytest.fixture
def space(tmp_path: Path, grade: Grade) -> Workspace:
    """A workspace whose problem 02 is to be passed by its core: the file lacks five lines."""
    grade("start")
    assert grade("test-out", "02").code == 0
    return Workspace(tmp_path / "attempts")


def test_a_problem_is_passed_by_its_core(grade: Grade, space: Workspace):
    file = space.file(ATTENTION)
    assert file.read_text() == short_form.frames(ATTENTION)[0].stub
    assert grade("problem", "02", "--json").json["verdict"] == "NOT ATTEMPTED"
    file.write_text(REFERENCE)
    assert grade("problem", "02", "--json").json["verdict"] == "PASS"
    assert "02  Causal attention, one head                7 of  7  passed by its core" in grade("list", "02").out
    assert grade("list", "02", "--json").json["problems"][0]["passed"] is True
    assert grade("solution", "02").out.endswith(REFERENCE)
    passed = [name for name, standing in space.standings().items() if standing.passed]
    assert paths.find("story").done(passed) == 1
    assert space.next_problem(catalog.find("01")) == HEADS
    grade("certificate")
    text = (space.folder / "certificate.html").read_text()
    assert f"1 problem of {len(catalog.names())} passed (1 by the core alone), 7 of" in text
    assert "<small>passed by its core</small>" in text
    (first,) = schedule.memories(space.entries())[ATTENTION.name].reviews
    assert (first.first, first.form) == (True, "core")
    again = grade("test-out", "02")
    assert (again.code, again.out) == (2, "")
    assert "You have passed problem 02 already. `grade review 02 --core` asks for its core again." in again.err
    grade("review", "02", "--core", "--grade")
    review = (space.folder / "reviews" / file.name).read_text()
    assert review == short_form.frames(ATTENTION)[1].stub, "another frame than that of the test-out"


def test_it_counts_no_records_until_the_whole_passes(grade: Grade, space: Workspace):
    def remember(text: str) -> None:
        space.file(ATTENTION).write_text(text)
        space.remember(ATTENTION, verdict="PASS", score=ATTENTION.points)

    remember(REFERENCE)
    counted = grade("cost", "02").out
    assert "It sets no record: this text has not passed as a whole." in " ".join(counted.split())
    assert "operations" not in grade("records", "02").out + grade("certificate").out
    assert "Records" not in (space.folder / "certificate.html").read_text()
    assert grade("reset", "02").code == 0
    remember(REFERENCE)
    assert space.standing(ATTENTION).state == "passed"
    grade("certificate")
    assert "<h2>Records</h2>" in (space.folder / "certificate.html").read_text()


def test_what_was_written_is_kept(grade: Grade, space: Workspace):
    space.file(HEADS).write_text("heads = 1\n")
    assert grade("test-out", "03").out.startswith(
        "kept  attempts/p03_causal_mha.1.py\nnew   attempts/p03_causal_mha.py\n"
    )
    assert space.file(HEADS).with_suffix(".1.py").read_text() == "heads = 1\n"
    assert grade("reset", "03").code == 0
    assert space.file(HEADS).read_text() == catalog.stub_text(HEADS)


def test_a_problem_without_a_core_is_refused(grade: Grade):
    run = grade("test-out", "32")
    assert (run.code, run.out) == (2, "")
    assert "Problem 32 has no core: it is always written as a whole." in run.err


def test_a_pass_of_the_whole_stays_one(space: Workspace):
    """After it, the core alone takes nothing away; before it, the whole replaces the core."""

    def passes(form: str) -> bool:
        space.record("begun", HEADS.name, form=form)
        space.file(HEADS).write_text(f"# {form}\n")
        space.remember(HEADS, verdict="PASS", score=HEADS.points)
        return space.progress()[HEADS.name].by_core

    assert [passes("core"), passes("core"), passes("whole"), passes("core")] == [True, True, False, False]


def test_an_older_log_loses_nothing_by_a_test_out(grade: Grade, tmp_path: Path):
    """A file of rows, entries without a form, and kinds of entries that this version does not know."""
    folder = tmp_path / "attempts"
    folder.mkdir()
    row = {"verdict": "PASS", "score": 6, "hints": 2, "digest": "", "passed_at": "2025-01-02T03:04+00:00"}
    (folder / log.OLD).write_text(json.dumps({"problems": {ATTENTION.name: row, HEADS.name: {"hints": 1, "score": 1}}}))
    later = log.Entry("0" * 16, "2026-01-01T00:00:00.000000Z", "of a later version", HEADS.name, {"form": "core"})
    (folder / log.FILE).write_text(later.line() + "half a li")
    assert grade("test-out", "03").code == 0
    space = Workspace(folder)
    progress = space.progress()
    assert (progress[ATTENTION.name].score, progress[ATTENTION.name].hints) == (6, 2)
    assert (space.standing(ATTENTION).state, progress[ATTENTION.name].by_core) == ("passed", False)
    assert (progress[HEADS.name].hints, progress[HEADS.name].form) == (1, "core")
    assert later in space.entries()
    assert schedule.memories(space.entries())[ATTENTION.name].reviews[0].form == "whole"
