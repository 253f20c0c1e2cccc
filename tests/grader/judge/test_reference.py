"""The reference: its outputs are cached, a corrupt cache is noticed, and a broken reference is an internal error."""

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from subprocess import PIPE, Popen

import pytest

from grader.course import cases, catalog
from grader.isolation.job import Job
from grader.isolation.sandbox import ForkServer, WorkerProcess
from grader.judge import cache
from grader.judge.reference import Reference, frame_of
from grader.wire.channel import encode
from tests.conftest import ROOT, Grade

SOLUTION = ROOT / "solutions" / "p07_next_token_loss.py"


def test_corrupt_outputs_are_computed_again(grade: Grade, tmp_path):
    cache = tmp_path / "cache"
    assert grade("problem", "07", SOLUTION, "--json", GRADE_CACHE=str(cache)).json["verdict"] == "PASS"
    stored = [path for path in (cache / "references").glob("??/*") if path.is_file()]
    assert stored
    for path in stored:
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data if path.name < "8" else data[:20])
    assert grade("problem", "07", SOLUTION, "--json", GRADE_CACHE=str(cache)).json["verdict"] == "PASS"


def test_an_unsound_problem_is_named(grade: Grade, tmp_path):
    copy = tmp_path / "course"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "tests", "__pycache__"))
    good = (copy / "solutions" / "p07_next_token_loss.py").read_text()
    (copy / "solutions" / "p07_next_token_loss.py").write_text(
        good.replace("    losses = ", "    1 / 0\n    losses = ")
    )
    run = grade("problem", "07", SOLUTION, root=copy)
    assert run.code == 2
    assert run.err.startswith("grade: The reference of problem 07 fails: ZeroDivisionError")
    (copy / "problems" / "p07_next_token_loss" / "problem.py").write_text("PROBLEM = 3 +")
    run = grade("problem", "07", SOLUTION, root=copy)
    assert run.code == 2
    assert "cannot be imported: SyntaxError" in run.err
    assert "Traceback" not in run.err
    (copy / "problems" / "p01_token_embedding" / "page.md").unlink()
    run = grade("show", "01", root=copy)
    assert run.code == 2
    assert "page.md cannot be read" in run.err


@pytest.fixture
def busy(tmp_path) -> Iterator[Callable[[str], Popen[str]]]:
    """Starts a process that claims an entry of the cache and never computes it."""
    started: list[Popen[str]] = []

    def start(key: str) -> Popen[str]:
        claims = f"from grader.judge import cache; print(bool(cache.claim({key!r})), flush=True); input()"
        started.append(Popen([sys.executable, "-c", claims], cwd=ROOT, stdin=PIPE, stdout=PIPE, text=True))
        assert started[-1].stdout
        assert started[-1].stdout.readline() == "True\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_what_another_process_computes_comes_last_and_is_not_waited_for_in_vain(
    fork_server: ForkServer, busy: Callable[[str], Popen[str]], tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path / "cache"))
    problem = catalog.find("07")
    check = problem.checks[0]
    first, second = cases.draw_all(problem, 5)[check.cases][:2]
    done: list[int] = []
    claims: list[str] = []
    original = cache.claim
    monkeypatch.setattr(cache, "claim", lambda key: claims.append(key) or original(key))
    alone = Reference(problem, fork_server)
    alone.ask(check, first).result()
    alone.close()
    for path in (tmp_path / "cache" / "references").rglob("*"):
        if path.is_file():
            path.unlink()
    busy(claims[0])
    reference = Reference(problem, fork_server)
    futures = [reference.ask(check, case) for case in (first, second)]
    for number, future in enumerate(futures):
        future.add_done_callback(lambda _, number=number: done.append(number))
    assert all(future.result().leaves for future in futures)
    reference.close()
    assert done == [1, 0]


class Counted:
    """A source of workers that keeps all that it started."""

    def __init__(self, fork_server: ForkServer) -> None:
        self.started: list[WorkerProcess] = []
        self._fork_server = fork_server

    def worker(self, job: Job) -> WorkerProcess:
        self.started.append(self._fork_server.worker(job))
        return self.started[-1]


def test_misconceptions_are_divided_among_workers(fork_server: ForkServer, tmp_path, monkeypatch: pytest.MonkeyPatch):
    problem = catalog.find("01")
    check = problem.checks[0]
    case = cases.draw_all(problem, 0)[check.cases][0]
    outputs = []
    for at_once in (1, 2):
        monkeypatch.setenv("GRADE_CACHE", str(tmp_path / str(at_once)))
        workers = Counted(fork_server)
        reference = Reference(problem, workers, at_once)
        plain = reference.ask(check, case).result()
        assert len(workers.started) == 1
        answers = [reference.ask(check, case, variant) for variant in reference.misconceptions]
        outputs.append([encode(frame_of(outcome)) for outcome in (plain, *(answer.result() for answer in answers))])
        reference.close()
        assert len(workers.started) == at_once
        assert all(worker.closed for worker in workers.started)
    assert len(outputs[0]) > 4
    assert outputs[0] == outputs[1]


def test_all_workers_but_the_first_end_when_a_grading_does(
    fork_server: ForkServer, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path))
    problem, workers = catalog.find("01"), Counted(fork_server)
    check = problem.checks[0]
    first, second = cases.draw_all(problem, 0)[check.cases][:2]
    reference = Reference(problem, workers, at_once=3)
    reference.ask(check, first).result()  # starts the first one; the order in which the others start is not determined
    for number, case in enumerate((first, second)):
        wait([reference.ask(check, case, variant) for variant in reference.misconceptions])
        reference.forget([first])
        wait([reference.ask(check, case, variant) for variant in reference.misconceptions])
        others = workers.started[1:]
        assert len(others) == 2 * (number + 1)
        deadline = time.monotonic() + 10
        while not all(worker.closed for worker in others) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [worker.closed for worker in workers.started] == [False, *[True] * len(others)]
    reference.close()


def test_a_second_worker_is_started_only_for_several_misconceptions(
    fork_server: ForkServer, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path))
    problem, workers = catalog.find("01"), Counted(fork_server)
    check = problem.checks[0]
    reference = Reference(problem, workers, at_once=2)
    drawn = cases.draw_all(problem, 0)[check.cases]
    wait([reference.ask(check, case) for case in drawn])
    for variant in list(reference.misconceptions)[:3]:  # one after another, as they are run ahead
        reference.ask(check, drawn[0], variant).result()
    reference.close()
    assert len(workers.started) == 1


def test_a_reference_is_closed_while_its_workers_work(
    fork_server: ForkServer, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path))
    problem = catalog.find("06")
    check = problem.checks[0]
    case = cases.draw_all(problem, 0)[check.cases][0]
    reference = Reference(problem, fork_server, at_once=2)
    answers = [reference.ask(check, case, variant) for variant in reference.misconceptions]
    wait(answers, return_when=FIRST_COMPLETED)
    reference.close()
    assert all(answer.done() for answer in answers)
