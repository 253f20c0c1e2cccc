"""`kill -9` at any moment loses no claim, no run and no answer, and the next command continues."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from grader.changes.reviewing import ChangeReview
from grader.course import catalog, tasks
from grader.course.workspace import Workspace
from grader.diagnosis.case import Case
from grader.experiment.claim import factor_of, folder_of
from tests.conftest import ROOT, boot

SECONDS = 600
# One of so many moments is tried: all of them, where there is time.
EVERY = [pytest.param(7, id="some"), pytest.param(1, id="all", marks=pytest.mark.thorough)]
Kill = Callable[..., None]
CLAIM = """
expects = "lower"
matters = 0.03
interval = [-0.1, 0.1]
change_my_mind = "an interval above minus three hundredths"
seeds = 2
[baseline]
value = "{baseline}"
rates = [0.01]
steps = 100
[new]
value = "{new}"
rates = [0.01]
steps = 100
"""
REPORT = "The difference is {{difference}}, in {{interval}}.\n\nVerdict: contradicts\n"
DIAGNOSIS = """
cause = "%s"
step = 84
[prediction]
change = "mend"
quantity = "loss"
step = 100
interval = [2.2, 2.8]
"""


@pytest.fixture(scope="module")
def kill() -> Iterator[Kill]:
    """A function that kills a command at one of `every` moments, and asserts that nothing is lost."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.grader.tasks.killed"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None

    def kill(space: Workspace, every: int, *words: str) -> None:
        process.stdin.write(json.dumps([words, str(space.folder), every]) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == []

    with process:
        yield kill
        process.stdin.close()


def scores(space: Workspace, name: str) -> tuple[int, ...]:
    found = tasks.best(tasks.find(name), space.entries())
    return found.scores if found else ()


def write_claim(space: Workspace, name: str) -> Path:
    task = tasks.find(name)
    factor, folder = factor_of(space, task), folder_of(space, task)
    (folder / "claim.toml").write_text(CLAIM.format(baseline=factor.baseline, new=factor.others[0]))
    return folder


@pytest.mark.parametrize("every", EVERY)
def test_an_experiment(kill: Kill, every: int, tmp_path: Path):
    name, space = "qk_norm_rate", Workspace(tmp_path / "attempts")
    kill(space, min(every, 3), "task", name)
    folder = write_claim(space, name)
    kill(space, min(every, 2), "claim", name)
    kill(space, every, "task", name)
    assert len(list(folder.glob("runs/*/*/metrics.jsonl"))) == 4
    (folder / "report.md").write_text(REPORT)
    kill(space, every, "task", name)
    assert len(scores(space, name)) == 1


@pytest.mark.parametrize("every", EVERY)
def test_a_diagnosis(kill: Kill, every: int, tmp_path: Path):
    name, space = "sick_restart", Workspace(tmp_path / "attempts")
    kill(space, min(every, 3), "task", name)
    case = Case.under_way(space, tasks.find(name))
    others = [each.name for each in case.task.causes if each.name != case.cause.name]
    for cause in (others[0], case.cause.name):
        (case.folder / "diagnosis.toml").write_text(DIAGNOSIS % cause)
        kill(space, min(every, 2), "task", name)
    assert scores(space, name) == (124,)


@pytest.mark.parametrize("every", EVERY)
def test_a_review(kill: Kill, every: int, tmp_path: Path):
    name, space = "review_model", Workspace(tmp_path / "attempts")
    review = begun_review(space, lambda: kill(space, every, "task", name))
    fill_in(review)
    kill(space, min(every, 2), "task", name)
    ended = ChangeReview.all(space, review.task)[0]
    assert ended.ended
    assert ended.runs == 1


def begun_review(space: Workspace, begin: Callable[[], object]) -> ChangeReview:
    """The change that a learner gets who has passed a problem."""
    space.folder.mkdir()
    problem = catalog.find("02")
    space.file(problem).write_text(catalog.solution_text(problem))
    space.remember(problem, verdict="PASS", score=problem.points)
    begin()
    review = ChangeReview.under_way(space, tasks.find("review_model"))
    assert review is not None
    return review


def fill_in(review: ChangeReview) -> None:
    """Accuses the hunks with a fault, with a test for each, and no other."""
    faults = review.change.faults
    verdicts = (f'{number} = "{"faulty" if number in faults else "sound"}"\n' for number in review.numbers)
    (review.folder / "review.toml").write_text("".join(verdicts))
    for number, fault in faults.items():
        own = review.task.home / "solutions" / review.task.label / f"{fault.problem.name}.py"
        (review.folder / f"test_{number}.py").write_text(own.read_text())


def start(space: Workspace, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", boot(), "--workspace", str(space.folder), *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finish(space: Workspace, *words: str) -> str:
    with start(space, *words) as process:
        return process.communicate(timeout=SECONDS)[0]


def killed_when(begun: Callable[[], bool], space: Workspace, *words: str) -> None:
    """Kills a command, and nothing that it started, as soon as something has begun. What it started ends, too."""
    end = time.monotonic() + SECONDS
    with start(space, *words) as process:
        while not begun():
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < end
            time.sleep(0.02)
        below = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
    assert psutil.wait_procs(below, timeout=60)[1] == []


@pytest.mark.thorough
def test_real_runs_of_an_experiment(tmp_path: Path):
    """The score trains one of the runs again, which must be equal bit for bit."""
    name, space = "qk_norm_rate", Workspace(tmp_path / "attempts")
    finish(space, "task", name)
    folder = write_claim(space, name)
    finish(space, "claim", name)
    for number in (1, 2, 4):
        killed_when(lambda n=number: len(list(folder.glob("runs/*/*/config.json"))) >= n, space, "task", name)
    assert "All runs are done" in " ".join(finish(space, "task", name).split())
    (folder / "report.md").write_text(REPORT)
    killed_when(lambda: any(each.kind == "opened" for each in space.entries()), space, "task", name)
    said = finish(space, "task", name)
    assert scores(space, name) or "follows" in said, said
    assert "the numbers are others" not in said


@pytest.mark.thorough
def test_a_real_run_that_went_wrong(tmp_path: Path):
    name, space = "sick_restart", Workspace(tmp_path / "attempts")
    home = space.folder / "diagnoses" / name / "1"
    killed_when(lambda: any(home.glob(".new-*")), space, "task", name)
    seeds = [each.facts["seed"] for each in space.entries() if each.kind == "drawn"]
    assert "went wrong" in " ".join(finish(space, "task", name).split())
    assert seeds == [each.facts["seed"] for each in space.entries() if each.kind == "drawn"]
    assert not list(home.glob(".new-*"))
    case = Case.under_way(space, tasks.find(name))
    text = DIAGNOSIS % case.cause.name
    (case.folder / "diagnosis.toml").write_text(text.replace("[2.2, 2.8]", "[-2, -1]"))  # no loss of any run
    killed_when(lambda: bool(Case.under_way(space, case.task).filed), space, "task", name)
    said = finish(space, "task", name)
    assert len(scores(space, name)) == 1, said


@pytest.mark.thorough
def test_real_tests_of_a_review(tmp_path: Path):
    name, space = "review_model", Workspace(tmp_path / "attempts")
    review = begun_review(space, lambda: finish(space, "task", name))
    fill_in(review)
    killed_when(lambda: ChangeReview.all(space, review.task)[0].runs == 1, space, "task", name)
    assert set(ChangeReview.all(space, review.task)[0].verdicts) == set(review.numbers)
    said = finish(space, "task", name) if ChangeReview.under_way(space, review.task) else ""
    (ended,) = ChangeReview.all(space, review.task)
    assert (bool(ended.ended), ended.points) == (True, 1), said
