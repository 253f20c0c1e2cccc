"""A grading in the process of the tests, where few misconceptions are known: to run all of them takes most of a grading."""

from collections.abc import Callable
from pathlib import Path

import pytest

from grader.course import catalog
from grader.isolation.sandbox import ForkServer
from grader.judge import judge, submission
from grader.judge.judge import GradeOptions
from grader.report.json import PublicReport

Graded = Callable[..., PublicReport]


@pytest.fixture
def graded(fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> Graded:
    """A function that grades the file at `path`. Only misconceptions that put one of `ideas` into the reference are known."""
    known = catalog.misconceptions

    def grade(number: str, path: Path, *ideas: str) -> PublicReport:
        monkeypatch.setattr(
            catalog,
            "misconceptions",
            lambda problem: [
                item for item in known(problem) if any(idea in form for idea in ideas for form in item.replace)
            ],
        )
        problem = catalog.find(number)
        source = submission.read(problem, path)
        return PublicReport.of(judge.grade(problem, source, fork_server, GradeOptions(timeout=200)))

    return grade
