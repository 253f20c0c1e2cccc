"""Open tasks: a submission is traced in one process, and weighed in others that never saw it."""

import json
from pathlib import Path

import click
import pytest

from grader.course import tasks
from grader.isolation.sandbox import ForkServer
from grader.judge.submission import Submission
from grader.tasks import grading, report, soundness
from tests.grader.tasks.conftest import BRONZE, GOLD, STUB, WRONG


@pytest.fixture
def score(doubling: Path, fork_server: ForkServer):
    """A function that grades a text for the task."""
    task = tasks.find("doubling")

    def graded(text: str, **more: bool) -> grading.Score:
        return grading.grade(task, Submission("doubling.py", {"doubling": text}), fork_server, **more)

    return graded


def test_a_score_is_that_of_the_worst_seed_and_of_all_runs(score):
    gold = score(GOLD)
    assert (gold.value, gold.standard, len(gold.runs)) == (4, "gold", 3)
    assert [run.pieces for run in gold.runs] == [{"elementwise": 4}] * 3
    assert score(BRONZE).standard == "bronze"
    text = click.unstyle(report.render(gold))
    assert text.splitlines()[0].endswith("gold, 4 operations")
    assert "  100%  elementwise" in text
    assert max(map(len, report.render(gold, 60).splitlines())) <= 80
    assert json.loads(report.dumps(gold))["class"] == "gold"


def test_a_quick_score_has_no_class(score):
    quick = score(GOLD, quick=True)
    assert (quick.value, quick.standard, len(quick.runs)) == (4, "", 1)
    assert "takes 3 seeds" in report.render(quick)


def test_what_misses_its_goal_or_fails_has_no_score(score):
    wrong = score(WRONG)
    assert (wrong.value, wrong.missed, wrong.standard, len(wrong.runs)) == (None, "it does not double", "", 1)
    assert "It does not double." in report.render(wrong)
    stub = score(STUB)
    assert stub.value is None
    assert click.unstyle(report.render(stub)).splitlines()[0].endswith("NOT ATTEMPTED")
    broken = score("def double(x):\n    return x @ x.T[1:]\n")
    assert "doubling.py, line 2" in report.render(broken)
    assert json.loads(report.dumps(broken))["error"]
    missing = score("import p01_token_embedding\n")
    assert "\np01_token_embedding.py is not in the same folder" in report.render(missing), "its name, as it is written"


def test_the_seeds_depend_on_the_file_and_on_the_secret():
    one, other = (Submission("a.py", {"a": text}) for text in ("x = 1\n", "x = 2\n"))
    assert grading.seeds(one, 0, 3) == grading.seeds(one, 0, 3)
    every = [seed for each in (one, other) for secret in (0, 1) for seed in grading.seeds(each, secret, 3)]
    assert len(set(every)) == 12


def test_verify_tries_the_stub_each_class_and_each_forgery(doubling: Path, fork_server: ForkServer):
    """A stub that raises is a fault: a stub of a task runs, and is in no class."""
    (doubling / "tasks" / "doubling" / "stub.py").write_text(WRONG)
    task = tasks.find("doubling")
    found = list(soundness.verify(task, fork_server))
    assert not [complaint for _, complaint in found if complaint]
    assert len(found) == 7
    (doubling / "solutions" / "doubling" / "gold.py").write_text(BRONZE)
    (doubling / "solutions" / "doubling" / "bronze.py").unlink()
    (doubling / "tests" / "attacks" / "forgeries" / "doubling_0.py").write_text('REFUSED = "accept"\n' + GOLD)
    (doubling / "tests" / "attacks" / "forgeries" / "doubling_1.py").unlink()
    (doubling / "tasks" / "doubling" / "stub.py").write_text(GOLD)
    (doubling / "tasks" / "doubling" / "page.md").write_text("# Doubling\n")
    complaints = [complaint for _, complaint in soundness.verify(task, fork_server) if complaint]
    assert [each[:20] for each in complaints] == [
        "the page does not sh", "the stub: 4", "no file is in the cl", "gold.py: bronze, 12 ", "it has 2 forgeries, ",
        "doubling_0.py: it ge",
    ]  # fmt: skip
