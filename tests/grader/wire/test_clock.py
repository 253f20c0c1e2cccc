"""The clock of a time limit: a busy machine takes none of it, and no worker gets more than it may compute for."""

import contextlib
import signal
import sys
import threading
from time import monotonic, sleep

import psutil
import pytest

from grader.course import catalog
from grader.isolation.sandbox import ForkServer, WorkerProcess
from grader.judge import judge
from grader.judge.options import GradeOptions
from grader.judge.submission import Submission
from grader.judge.verdict import Report, Verdict
from grader.wire import clock
from grader.wire.clock import PATIENCE, Clock

LIMIT = 2.0  # seconds
TURN = 0.1  # seconds in which a process runs once


@pytest.fixture
def at(monkeypatch):
    """Sets the time."""
    now = [0.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("share", "ends"),
    [
        (1.0, 10.0),
        (0.97, 10.0),
        (0.5, 20.0),
        (0.25, 40.0),
        (0.15, 65.0),
        (0.05, 100.0),
        (0.01, 100.0),
        (0.001, 10.0),
        (0.0, 10.0),
    ],
)
def test_the_limit_is_computing_time_up_to_some_patience(at, share, ends):
    """A worker that gets this share of the CPU has so long; one that sleeps has no more than on an idle machine."""
    watched = Clock(10.0, lambda: share * at[0])
    while not watched.is_up():
        at[0] = max(watched.deadline, at[0] + 0.01)
    assert at[0] == pytest.approx(ends, rel=0.06)
    assert watched.starved == (ends == 100.0 and share < 0.05)


def test_what_computes_and_then_sleeps_gets_the_rest_of_its_limit_once(at):
    watched = Clock(10.0, lambda: min(at[0], 4.0))
    while not watched.is_up():
        at[0] = watched.deadline
    assert at[0] == 16.0


def test_a_process_that_has_nothing_to_do_is_not_asleep(at):
    """It computes for 4 seconds, then has nothing to do for 50, then computes again."""
    worked = [0.0]
    watched = Clock(10.0, lambda: worked[0])
    at[0] = worked[0] = 4.0
    watched.pause()
    at[0] = 54.0
    watched.go_on()
    assert watched.deadline == 60.0
    while not watched.is_up():
        worked[0] += (watched.deadline - at[0]) / 2  # on a busy machine
        at[0] = watched.deadline
    assert worked[0] == pytest.approx(10.0, rel=0.06)
    watched.go_on()  # it is not paused


def graded(tail: str, share: float) -> tuple[Report, float]:
    """A right file with something more at its end, and how long it took, on a machine that runs it a share of the
    time."""
    problem = catalog.find("07")
    source = catalog.solution_path(problem).read_text()
    workers, done = list[WorkerProcess](), threading.Event()

    def send(number: int) -> None:
        for process in (process for worker in workers for process in worker._tree().members()):
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    def busy_machine() -> None:
        while not done.is_set():
            send(signal.SIGSTOP)
            sleep(TURN * (1 - share))
            send(signal.SIGCONT)
            sleep(TURN * share)

    with contextlib.closing(ForkServer()) as server:
        start_worker = server.worker

        def worker(*args, **kwargs):
            workers.append(start_worker(*args, **kwargs))
            return workers[-1]

        server.worker = worker
        thread = threading.Thread(target=busy_machine)
        thread.start()
        began = monotonic()
        try:
            options = GradeOptions(timeout=LIMIT, shrink=False, show=False)
            report = judge.grade(problem, Submission("mine.py", {problem.name: source + tail}), server, options)
        finally:
            done.set()
            thread.join()
    return report, monotonic() - began


COMPUTES = "\n\nimport time\nEND = time.process_time() + 1\nwhile time.process_time() < END:\n    pass\n"


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="stops processes by signals")
def test_a_busy_machine_changes_no_verdict():
    report, seconds = graded(COMPUTES, share=0.5)
    assert report.verdict is Verdict.PASS, report.first_failure
    assert seconds > LIMIT  # its limit, by the clock on the wall


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="stops processes by signals")
def test_a_loop_ends_on_a_busy_machine_too_and_the_report_says_where():
    report, seconds = graded("\n\nwhile True:\n    pass\n", share=0.5)
    assert report.verdict is Verdict.TIMEOUT
    assert "infinite loop? (mine.py, line" in report.first_failure.message
    assert seconds < LIMIT * PATIENCE + 5
