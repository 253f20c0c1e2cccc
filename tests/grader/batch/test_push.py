"""`grade push canvas`, with a Canvas on this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commandline.errors import UsageError
from grader.batch import deadlines, push
from grader.batch.gradebook import Assignment
from grader.batch.push import Target
from grader.batch.records import Person, StoredAttempt
from grader.batch.store import Store
from grader.course import catalog
from grader.isolation.level import Isolation, Level
from grader.judge.verdict import Verdict
from grader.report.json_report import MisconceptionRow, PublicReport
from tests.conftest import Grade, boot
from tests.grader.batch import canvas
from tests.grader.batch.canvas import COURSE, TOKEN, Canvas
from tests.grader.report.reports import report_of

PROBLEMS = [catalog.find("01"), catalog.find("07")]
USERS = ["17", "18", "19"]
NAMES = [Assignment.of(problem).title for problem in PROBLEMS]


@pytest.fixture
def server() -> Iterator[Canvas]:
    with canvas.running() as running:
        for problem, name in zip(PROBLEMS, NAMES, strict=True):
            running.add(name, problem.points, USERS)
        yield running


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A class of three, and one learner without a Canvas id: all have 3 points for each problem."""
    store = Store(tmp_path / "results")
    people = [Person(f"learner {user}", (user,), (user,)) for user in USERS]
    store.remember_intake([*people, Person("nobody")], [])
    for learner in [*(person.learner for person in people), "nobody"]:
        for problem in PROBLEMS:
            attempt = StoredAttempt(learner, problem.name, "a", "k", "f.py", "FAIL", 3, problem.points)
            store.put(lambda learner, own: deadlines.settle(own, [learner], None, best=True), attempt)
    store.close()
    return tmp_path / "results"


def arguments(results: Path, server: Canvas, *more: object) -> tuple[object, ...]:
    return ("push", "canvas", results, "--url", server.url, "--course", COURSE, *more)


def test_nothing_is_sent_unless_asked_and_nothing_twice(grade: Grade, results: Path, server: Canvas):
    server.marks[100]["17"] = 3.0
    server.busy = 1
    run = grade(*arguments(results, server), CANVAS_TOKEN=TOKEN)
    assert run.code == 0, run.err
    assert f"{NAMES[0]}, learner 18: none -> 3" in run.out
    assert "Note: 'nobody' has no Canvas id" in run.out
    assert run.out.endswith("Nothing was sent. Add --send to send 5 marks.\n")
    assert server.posts == 0
    run = grade(*arguments(results, server, "--send"), CANVAS_TOKEN=TOKEN)
    assert run.out.endswith("Sent 5 marks.\n")
    assert server.marks == {100: dict.fromkeys(USERS, 3.0), 101: dict.fromkeys(USERS, 3.0)}
    assert (server.posts, server.stored.get((100, "17"))) == (2, None)
    run = grade(*arguments(results, server, "--send"), CANVAS_TOKEN=TOKEN)
    assert run.out.endswith("Canvas has all marks.\n")
    assert server.posts == 2


def test_killed_midway_and_repeated(grade: Grade, results: Path, server: Canvas, tmp_path: Path):
    server.stops_after = 4
    command = [sys.executable, "-c", boot(), *map(str, arguments(results, server, "--send"))]
    process = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "CANVAS_TOKEN": TOKEN}, stdout=subprocess.DEVNULL
    )
    assert server.stopped.wait(60)
    process.kill()
    process.wait()
    server.stops_after = None
    assert grade(*arguments(results, server, "--send"), CANVAS_TOKEN=TOKEN).out.endswith("Sent 2 marks.\n")
    assert server.stored == {(number, user): 1 for number in (100, 101) for user in USERS}
    assert server.marks == {100: dict.fromkeys(USERS, 3.0), 101: dict.fromkeys(USERS, 3.0)}


def test_marks_that_are_not_ours_to_change(grade: Grade, results: Path, server: Canvas):
    server.excused.add("18")
    del server.marks[100]["19"], server.marks[101]["19"]
    server.assignments[0]["points_possible"] = 100
    server.add("Homework", PROBLEMS[1].points, USERS)
    run = grade(*arguments(results, server, "--send", "--assignment", "07=102"), CANVAS_TOKEN=TOKEN)
    for text in (
        "'learner 18' is excused",
        "'learner 19' is not in the course",
        f"'{NAMES[0]}' has 100 points in Canvas",
    ):
        assert f"Note: {text}" in run.out
    assert server.stored == {(100, "17"): 1, (102, "17"): 1, (102, "19"): 1}


def test_a_mark_that_was_entered_in_canvas_stays(grade: Grade, results: Path, server: Canvas):
    """What was sent may be replaced. Any other mark is a decision that somebody took there."""
    assert grade(*arguments(results, server, "--send"), CANVAS_TOKEN=TOKEN).code == 0
    server.marks[100]["17"] = 5.0
    store = Store(results)
    for learner in ("learner 17", "learner 18"):
        store.decide(learner, PROBLEMS[0].name, "hand", 4, "by hand: x")
    store.close()
    run = grade(*arguments(results, server, "--send"), CANVAS_TOKEN=TOKEN)
    assert f"{NAMES[0]}, learner 17: 5 stays, because it was entered in Canvas; it is 4 here" in run.out
    assert f"{NAMES[0]}, learner 18: 3 -> 4" in run.out
    assert "1 mark entered in Canvas stays; --overwrite replaces them." in run.out
    assert (server.marks[100]["17"], server.marks[100]["18"]) == (5.0, 4.0)
    run = grade(*arguments(results, server, "--send", "--overwrite"), CANVAS_TOKEN=TOKEN)
    assert run.out.endswith("Sent 1 mark.\n")
    assert server.marks[100]["17"] == 4.0


@pytest.fixture
def told(results: Path) -> Path:
    """The class of `results`, of whom one has handed in two files, each with a report."""
    report = PublicReport.of(report_of(Verdict.FAIL, Verdict.PASS, isolation=Isolation(Level.STRICT)))
    report = replace(report, misconception=MisconceptionRow("no shift", "Shift them."))
    store = Store(results)
    for problem in PROBLEMS:
        own = replace(report, problem=problem.name)
        attempt = StoredAttempt("learner 17", problem.name, "a", "k", "f.py", "FAIL", 3, problem.points, report=own)
        store.put(lambda learner, own: deadlines.settle(own, [learner], None, best=True), attempt)
    store.remember("reveal", "idea")
    store.close()
    return results


def test_a_comment_is_sent_once_and_again_when_it_changes(grade: Grade, told: Path, server: Canvas):
    run = grade(*arguments(told, server, "--comments"), CANVAS_TOKEN=TOKEN)
    assert f"{NAMES[0]}, learner 17: comment: Problem 01: FAIL" in run.out
    assert run.out.endswith("No comment was sent. Add --send to send 2 comments.\n")
    assert server.comments == {}
    send = arguments(told, server, "--comments", "--send")
    assert grade(*send, CANVAS_TOKEN=TOKEN).out.endswith("Sent 6 marks.\nSent 2 comments.\n")
    assert set(server.comments) == {(100, "17"), (101, "17")}, "of the others there is nothing to say"
    (text,) = server.comments[101, "17"]
    assert "Likely cause: no shift." in text
    assert "Shift them." not in text, "learners are told the idea alone"
    server.comments[100, "17"].clear()  # by hand
    assert grade(*send, CANVAS_TOKEN=TOKEN).out.endswith("Canvas has all comments.\n")
    assert (server.comments[100, "17"], server.comments[101, "17"]) == ([], [text])
    store = Store(told)
    store.remember("reveal", "verdict")
    store.close()
    assert grade(*send, CANVAS_TOKEN=TOKEN).out.endswith("Sent 2 comments.\n")
    assert "no shift" not in server.comments[101, "17"][1]


def test_a_comment_that_canvas_has_is_not_sent_by_another_folder(grade: Grade, told: Path, server: Canvas):
    copy = told.with_name("copy")
    shutil.copytree(told, copy)
    for folder, said in ((told, "Sent 2 comments."), (copy, "Canvas has all comments.")):
        run = grade(*arguments(folder, server, "--comments", "--send"), CANVAS_TOKEN=TOKEN)
        assert run.out.endswith(f"{said}\n")
    assert {len(texts) for texts in server.comments.values()} == {1}


def test_a_comment_that_canvas_does_not_take_is_said(grade: Grade, told: Path, server: Canvas):
    server.marks = {number: dict.fromkeys(USERS, 3.0) for number in server.marks}
    server.refuses.add("17")
    run = grade(*arguments(told, server, "--comments", "--send"), CANVAS_TOKEN=TOKEN)
    assert run.code == 2
    assert f"Canvas did not take 2 comments: 'learner 17' ({NAMES[0]}), 'learner 17' ({NAMES[1]})." in run.err
    server.refuses.clear()
    assert grade(*arguments(told, server, "--comments", "--send"), CANVAS_TOKEN=TOKEN).out.endswith(
        "Sent 2 comments.\n"
    )


def test_who_is_excused_gets_no_mark(grade: Grade, results: Path, server: Canvas):
    rules = deadlines.Deadlines(excused={"learner 17": frozenset({"01"})})
    store = Store(results)
    learners = [f"learner {user}" for user in USERS]
    store.settle(lambda learner, own: deadlines.settle(own, [learner], rules, best=True), learners)
    store.close()
    run = grade(*arguments(results, server, "--send"), CANVAS_TOKEN=TOKEN)
    assert "Note: 'learner 17' is excused and is left out; set that in Canvas, too." in run.out
    assert (server.marks[100]["17"], server.marks[101]["17"]) == (None, 3.0)


@pytest.mark.parametrize("fails", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_one_learners_trouble_costs_the_others_nothing(grade: Grade, results: Path, server: Canvas, fails: bool):
    (server.breaks if fails else server.refuses).add("18")
    run = grade(*arguments(results, server, "--send"), CANVAS_TOKEN=TOKEN)
    assert run.code == 2
    assert f"Canvas did not take 2 marks: 'learner 18' ({NAMES[0]}), 'learner 18' ({NAMES[1]})." in run.err
    assert server.marks == {number: {"17": 3.0, "18": None, "19": 3.0} for number in (100, 101)}
    server.refuses.clear()
    server.breaks.clear()
    assert grade(*arguments(results, server, "--send"), CANVAS_TOKEN=TOKEN).out.endswith("Sent 2 marks.\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"token": ""}, "Set CANVAS_TOKEN to an access token of Canvas"),
        ({"token": "secret-wrong"}, "Canvas does not accept the token in CANVAS_TOKEN"),
        ({"token": "secret\nX: y"}, "Set CANVAS_TOKEN"),
        ({"url": "http://canvas.example.edu"}, "would show your token to the network; use https"),
        ({"url": "canvas.example.edu"}, "is not the address of a Canvas"),
        ({"url": "http://127.0.0.1:1"}, "Canvas does not answer at http://127.0.0.1:1"),
        ({"course": "CS101"}, "--course CS101 is not the number of a course"),
        ({"course": "1"}, "Canvas has no course 1"),
        ({"assignments": ("07",)}, "--assignment 07 is not valid; write NN=ID"),
        (
            {"assignments": ("07=999",)},
            "has no assignment with the number 999; create it, or name one with --assignment 07=ID",
        ),
    ],
)
def test_errors_are_sentences_that_do_not_show_the_token(
    results: Path, server: Canvas, change: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CANVAS_TOKEN", change.pop("token", TOKEN))
    with pytest.raises(UsageError) as error:
        list(push.push(results, replace(Target(server.url, COURSE), **change), send=True))
    assert message in str(error.value)
    assert "secret" not in str(error.value)
    assert server.posts == 0


def test_no_redirect_gets_the_token(results: Path, server: Canvas, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CANVAS_TOKEN", TOKEN)
    with canvas.running() as other:
        server.moved_to = other.url
        with pytest.raises(UsageError, match="refused the request"):
            list(push.push(results, Target(server.url, COURSE), send=True))
        server.moved_to, server.links_to = "", other.url
        with pytest.raises(UsageError, match="does not answer like a Canvas"):
            list(push.push(results, Target(server.url, COURSE), send=True))
        assert other.requests == 0
