"""A resident judge for many learners on one machine: which processes it has, and when."""

import time

import psutil
import pytest

from grader.course import catalog
from grader.judge.submission import Submission
from grader.judge.verdict import Verdict
from grader.resident.resident import Resident

PROBLEM = catalog.find("01")


def processes() -> int:
    return len(psutil.Process().children(recursive=True))


def test_it_keeps_the_fork_server_alone_until_it_rests(runtime_folder: None):
    others = processes()
    with Resident(is_lean=True) as resident:
        assert processes() == others
        for _ in range(2):
            resident.prepare(PROBLEM)  # the learner opens the problem
            report = resident.grade(PROBLEM, Submission("p01.py", {PROBLEM.name: catalog.solution_text(PROBLEM)}))
            assert report.verdict is Verdict.PASS
            assert resident.idle_seconds < 60
            until(others + 1)
            resident.rest()
            until(others)
        resident.prepare(PROBLEM)
        until(others + 1)
    until(others)


def until(number: int) -> None:
    deadline = time.monotonic() + 60
    while processes() != number:
        if time.monotonic() > deadline:
            pytest.fail(f"there are {processes()} processes instead of {number}")
        time.sleep(0.05)
