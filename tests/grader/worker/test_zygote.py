"""Forked workers: their exit code reaches the judge unchanged, and they inherit no descriptor but their own."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.course import catalog
from grader.errors import CourseError, WorkerStartError
from grader.isolation.job import Job
from grader.isolation.sandbox import WITHOUT, ForkServer
from grader.judge.judge import Shared, grade
from grader.judge.reference import Reference
from grader.judge.submission import Submission
from grader.judge.verdict import Report
from grader.judge.worker_session import Session
from tests.conftest import ROOT

NAME = "p07_next_token_loss"
SOLUTION = (ROOT / "solutions" / f"{NAME}.py").read_text()

GradeText = Callable[[str], Report]


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def reference(fork_server: ForkServer) -> Iterator[Reference]:
    worker = Reference(catalog.load(NAME), fork_server)
    yield worker
    worker.close()


@pytest.fixture(params=["", "namespaces", "namespaces,landlock,seccomp"])
def grade_with(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, fork_server: ForkServer, reference: Reference
) -> GradeText:
    """Grades the solution with some lines added, with and without namespaces."""
    monkeypatch.setenv(WITHOUT, request.param)

    def grade_with(lines: str) -> Report:
        submission = Submission("mine.py", {NAME: f"{SOLUTION}\n{lines}\n"})
        return grade(catalog.load(NAME), submission, fork_server, shared=Shared(reference))

    return grade_with


@pytest.mark.parametrize("code", [0, 3, 70, 139, 255])
def test_an_exit_code_is_not_mistaken_for_a_signal(grade_with: GradeText, code: int):
    """A shell would report a process that was killed by signal 11 as exit code 139."""
    report = grade_with(f"import os; os._exit({code})")
    assert report.verdict == "ERROR"
    assert report.checks[0].message.startswith(f"the process exited (code {code}) before returning a result")
    assert report.exited


@pytest.mark.parametrize(
    ("lines", "verdict", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", "ERROR", "the process exited (signal 9) before returning a result"),
        ("import os; os.abort()", "ERROR", "it crashed (signal 6) before returning a result"),
        ("import os; os.kill(os.getpid(), 11)", "ERROR", "it crashed (signal 11) before returning a result"),
        ("import ctypes; ctypes.string_at(0)", "ERROR", "it crashed (signal 11) before returning a result"),
    ],
)
def test_a_signal_is_reported_as_a_signal(grade_with: GradeText, lines: str, verdict: str, message: str):
    report = grade_with(lines)
    assert report.verdict == verdict
    assert report.checks[0].message.startswith(message)


def test_a_worker_inherits_its_output_and_its_channel_only(grade_with: GradeText):
    """In particular neither the supervisor's socket to the judge nor the pipe for the exit code."""
    report = grade_with(
        "import os\n"
        "descriptors = [int(name) for name in os.listdir('/proc/self/fd')]\n"
        "print([number for number in sorted(descriptors) if os.path.exists(f'/proc/self/fd/{number}')])"
    )
    assert report.verdict == "PASS", report.checks
    assert report.stdout == "[0, 1, 2, 3]\n"


def test_a_crash_near_the_memory_limit(grade_with: GradeText):
    """The kernel counts memory that is allocated, whether it is used or not."""
    report = grade_with(
        "import ctypes, time\nimport numpy as np\nblock = np.empty(1800 << 20, "
        "np.uint8)\ntime.sleep(1.5)\nctypes.string_at(0)"
    )
    assert report.verdict == "MEMORY"
    assert report.checks[0].message == "it crashed (signal 11), probably out of memory (limit 2048 MiB)"


def test_a_worker_that_does_not_start_is_an_internal_error(fork_server: ForkServer, tmp_path: Path):
    """Its probes start a thread. No code of a submission has run."""
    worker = fork_server.worker(
        _job(tmp_path, "import threading, time\nthreading.Thread(target=time.sleep, args=[9]).start()")
    )
    session = Session(catalog.load(NAME), worker, 60)
    with pytest.raises(WorkerStartError, match=r"The worker of problem 07 did not start: .*started threads") as caught:
        session.load("", Submission("mine.py", {NAME: SOLUTION}))
    assert caught.value.exit_code == 3


def test_probes_that_cannot_be_imported_are_their_authors_error(fork_server: ForkServer, tmp_path: Path):
    session = Session(catalog.load(NAME), fork_server.worker(_job(tmp_path, "PROBES = {")), 60)
    with pytest.raises(CourseError, match=r"^/.*probes\.py cannot be imported: SyntaxError") as caught:
        session.load("", Submission("mine.py", {NAME: SOLUTION}))
    assert caught.value.exit_code == 2


def _job(folder: Path, probes: str) -> Job:
    """The job of a problem with these probes."""
    shutil.copy(catalog.load(NAME).folder / "problem.py", folder)
    (folder / "probes.py").write_text(probes)
    return Job(folder)
