"""Misconceptions that are run before a wrong attempt needs them."""

import threading
import time

import pytest

from grader.course import catalog
from grader.judge.reference import Reference, ReferenceWorker
from grader.judge.submission import Submission
from grader.problem import Case, Check
from grader.resident import precompute
from grader.resident.resident import Resident
from tests.conftest import NO_SHIFT, misconception_name

PROBLEM = catalog.find("07")
RIGHT = catalog.reference_sources(PROBLEM)[PROBLEM.name]
WRONG = Submission(f"{PROBLEM.name}.py", {PROBLEM.name: RIGHT.replace("token_ids[1:]", "token_ids[:-1]")})


def wait_until(running: bool) -> None:
    """Waits until the thread runs, or has ended."""
    deadline = time.monotonic() + 120
    while any(thread.name == "precompute" for thread in threading.enumerate()) is not running:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The variants whose outputs were computed, not read from the cache."""
    asked, load = list[str](), ReferenceWorker.load

    def recorded(worker: ReferenceWorker, variant: str, submission: Submission) -> object:
        asked.append(variant)
        return load(worker, variant, submission)

    monkeypatch.setattr(ReferenceWorker, "load", recorded)
    return asked


@pytest.mark.thorough
def test_the_first_wrong_attempt_finds_its_likely_cause_in_the_cache(
    runtime_folder: None, tmp_path, asked: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(precompute, "QUIET", 0.0)
    with Resident() as resident:
        resident.prepare(PROBLEM)
        wait_until(running=True)
        wait_until(running=False)
        assert {*asked} == {"", *Reference(PROBLEM, resident._fork_server).misconceptions}
        monkeypatch.setattr(precompute, "QUIET", 120.0)
        asked.clear()
        report = resident.grade(PROBLEM, WRONG)
    assert report.misconception is not None
    assert report.misconception.name == misconception_name("07", NO_SHIFT)
    assert not any(asked), "a misconception was run again"


def test_nothing_is_asked_during_a_grading_and_after_the_end(runtime_folder: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(precompute, "QUIET", 0.0)
    asked, ask = list[bool](), Reference.ask

    def recorded(reference: Reference, check: Check, case: Case, variant: str = "") -> object:
        if threading.current_thread().name == "precompute":
            asked.append(resident._running is None)
        return ask(reference, check, case, variant)

    monkeypatch.setattr(Reference, "ask", recorded)
    with Resident() as resident:
        resident.prepare(PROBLEM)
        for _ in range(3):
            resident.grade(PROBLEM, WRONG)
    wait_until(running=False)
    assert asked
    assert all(asked)
