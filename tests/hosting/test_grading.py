"""The gradings of what was handed in: by `grade batch`, each attempt once, and shown as the teacher's rules say."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from grader.batch.results import Results
from grader.course.workspace import Workspace
from tests.conftest import ROOT
from tests.grader.batch.conftest import table
from tests.hosting.conftest import Hub, Teacher, gradebook, hand_in, wait_until
from tests.hosting.lti.platform import LearningPlatform

Spaces = Callable[[str], Workspace]
RIGHT = (ROOT / "solutions" / "p01_token_embedding.py").read_text()
WRONG = (ROOT / "problems" / "p01_token_embedding" / "stub.py").read_text()
SECONDS = 240


@pytest.fixture
def hub(tmp_path: Path, platform: LearningPlatform, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A class to which ada and bob came from their course."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    hub = Hub(tmp_path / "class", platform)
    hub.of.folder.mkdir()
    hub.claims = {user: platform.claims(user, "n") for user in ("ada", "bob")}
    hub.options = ("--accept-isolation", "weak")
    hub.start()
    yield hub
    hub.stop()


def wait_for(hub: Hub, user: str, count: int) -> list[dict[str, Any]]:
    """Waits until so many attempts at problem 01 have a result."""
    deadline = time.monotonic() + SECONDS
    while sum(bool(one["result"]) for one in hub.attempts(user, "01")) < count:
        assert time.monotonic() < deadline, hub.of.log.read_text() if hub.of.log.exists() else "no batch"
        time.sleep(0.2)
    return hub.attempts(user, "01")


def test_what_is_handed_in_is_graded_also_after_a_restart_and_again(
    hub: Hub, platform: LearningPlatform, workspace: Spaces
):
    hub.of.deadlines.write_text("due: 2099-01-01\nhand_in: {before_due: verdict, counts: last}\n")
    hand_in(workspace("ada"), hub.service("ada"), "01", RIGHT)
    hub.stop()  # in the middle of a batch
    hub.start()
    (graded,) = wait_for(hub, "ada", 1)
    assert (graded["result"]["verdict"], graded["result"]["score"], graded["result"]["counts"]) == ("PASS", 6, True)
    hand_in(workspace("ada"), hub.service("ada"), "01", WRONG)
    hand_in(workspace("bob"), hub.service("bob"), "01", RIGHT)
    first, second = wait_for(hub, "ada", 2)
    assert (first["result"]["score"], "counts" in first["result"]) == (6, False)
    assert (second["result"]["score"], second["result"]["counts"], second["result"]["mark"]) == (0, True, 0)
    checks = second["result"]["checks"]
    assert ({check["message"] for check in checks}, second["result"]["advice"]) == ({""}, "")
    wait_for(hub, "bob", 1)
    stored = Results(hub.of.results)
    assert {one.learner: one.mark for one in stored.records()} == {"ada": 0, "bob": 6}
    assert len(stored.attempts("ada", "p01_token_embedding")) == 2
    stored.close()
    wait_until(lambda: gradebook(platform) == {"ada": 0, "bob": 6})
    hub.stop()
    with closing(sqlite3.connect(hub.of.results / "results.sqlite")) as database, database:
        for stored_in, column in (("attempts", "score"), ("counted", "adjusted"), ("marks", "mark")):
            database.execute(f"update {stored_in} set {column} = 2 where learner = 'bob'")  # as a faulty grader would
    hub.start()
    wait_until(lambda: gradebook(platform) == {"ada": 0, "bob": 2})
    teacher = Teacher(hub)
    teacher.sign_in("teacher")
    teacher.send("regrade", learner="bob", problem="01", because="the reference was wrong")
    wait_until(lambda: gradebook(platform) == {"ada": 0, "bob": 6}, SECONDS)
    (row,) = table(hub.of.results / "regrades.csv")
    assert (row["learner"], row["score_before"], row["score_after"]) == ("bob", "2", "6")
    hub.of.deadlines.write_text("due: 2099-01-01\nhand_in: {before_due: nothing}\n")
    assert [one["result"] for one in hub.attempts("ada", "01")] == [None, None]
    hub.stop()
    found = {path.name for path in hub.of.folder.iterdir()}
    assert found == {"deadlines.yml", "grading.log", "hand-ins", "lti", "regrades", "results"}
    hub.start()


@pytest.mark.thorough
def test_a_batch_that_cannot_run_is_tried_again(hub: Hub, workspace: Spaces):
    hub.of.deadlines.write_text("due: soon\n")
    hand_in(workspace("ada"), hub.service("ada"), "01", WRONG)
    time.sleep(1)
    hub.of.deadlines.unlink()
    wait_for(hub, "ada", 1)
