"""The two processes of a submission: its worker sees no array of a case, and equal programs are run once."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from grader.course import catalog
from grader.isolation.job import Job
from grader.isolation.sandbox import ForkServer, WorkerProcess
from grader.judge import cache
from grader.judge.judge import grade
from grader.judge.options import GradeOptions
from grader.judge.submission import Submission
from grader.judge.verdict import Report, Verdict
from grader.judge.worker_session import Session
from grader.verify import forgery
from grader.wire.channel import Frame

RIGHT = """
import jax
import jax.numpy as jnp


def next_token_loss(logits, token_ids, pad_id):
    targets = token_ids[1:]
    real = targets != pad_id
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits[:-1]), jnp.where(real, targets, 0)[:, None], axis=1)[:, 0]
    return -jnp.sum(jnp.where(real, picked, 0.0)) / jnp.maximum(real.sum(), 1)
"""
RENAMED = (
    RIGHT.replace("picked", "chosen").replace("targets", "wanted").replace("\n\n\ndef", "\n\n# a comment\n\n\ndef")
)
OTHER = RIGHT.replace("return -jnp.sum", "return -1.0 * jnp.sum")
FIRST_IS_OTHER = f"""{RIGHT.replace("def next_token_loss", "def right")}
traced = []


def next_token_loss(logits, token_ids, pad_id):
    traced.append(logits.shape)
    loss = right(logits, token_ids, pad_id)
    return 1.0 * loss if len(traced) == 1 else loss
"""
UNTRACEABLE = RIGHT.replace("    targets =", "    float(logits[0, 0])\n    targets =")


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GRADE_CACHE", str(tmp_path / "cache"))
    cache._usable.cache_clear()
    yield
    cache._usable.cache_clear()


@pytest.fixture
def graded(empty_cache: None, fork_server: ForkServer) -> Callable[[str], Report]:
    problem = catalog.find("07")

    def graded(text: str) -> Report:
        submission = Submission(f"{problem.name}.py", {problem.name: text})
        return grade(problem, submission, fork_server, GradeOptions(grade_imports=False))

    return graded


def test_a_program_that_crashed_once_is_run_again(graded, monkeypatch: pytest.MonkeyPatch):
    """XLA crashes in one of many thousand runs, and the submission is not to blame."""
    ended: list[WorkerProcess] = []
    exchange = Session._exchange

    def crashing(session: Session, frame: Frame | None, *expected: str) -> object:
        if frame and frame.kind == "run" and not ended:
            ended.append(session.worker)
            psutil.Process(session.worker._process.pid).children(recursive=True)[-1].send_signal(signal.SIGSEGV)
        return exchange(session, frame, *expected)

    monkeypatch.setattr(Session, "_exchange", crashing)
    assert graded(RIGHT).verdict is Verdict.PASS
    assert len(ended) == 1


def test_a_traced_submission_never_gets_a_number_of_a_case(graded, monkeypatch: pytest.MonkeyPatch):
    """Every frame that its process receives: the sources, and requests with shapes instead of arrays and without a
    seed."""
    received: dict[WorkerProcess, list[Frame]] = {}
    exchange = Session._exchange

    def recording(session: Session, frame: Frame | None, *expected: str) -> object:
        if frame:
            received.setdefault(session.worker, []).append(frame)
        return exchange(session, frame, *expected)

    monkeypatch.setattr(Session, "_exchange", recording)
    assert graded(RIGHT).verdict is Verdict.PASS
    submissions = [
        frames for frames in received.values() if any(frame.fields.get("mode") == "trace" for frame in frames)
    ]
    assert len(submissions) == 1
    assert {frame.kind for frame in submissions[0]} == {"load", "probe"}
    for frame in submissions[0]:
        assert not frame.leaves
        assert frame.fields.get("seed", 0) == 0


def test_code_that_cannot_be_traced_runs_on_the_numbers_and_is_told_so(graded):
    report = graded(UNTRACEABLE)
    assert report.verdict is Verdict.PASS
    assert any("ran eagerly" in remark for remark in report.remarks)


@pytest.mark.parametrize(
    ("name", "true", "forged"),
    [
        ("p37_remembers_for_jit", {"later positions"}, {"jit"}),
        (
            "p39_remembers_the_case",
            {"output", "gradient"},
            {"steps with a cache", "one compilation", "size of the cache"},
        ),
    ],
)
def test_a_worker_that_was_told_a_case_proves_nothing_about_programs_on_it(
    empty_cache: None, fork_server: ForkServer, name: str, true: set[str], forged: set[str]
):
    """These forgeries need the checks before the one that they forge: they tell them the numbers."""
    problem = catalog.find(name[1:3])
    (path,) = (path for path in catalog.forgeries(problem) if path.stem == name)
    report = grade(problem, forgery(problem, path), fork_server, GradeOptions(grade_imports=False, shrink=False))
    passed = {result.check.name for result in report.checks if result.passed}
    assert true <= passed
    assert not passed & forged


def test_equal_programs_are_run_once(graded, fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch):
    started: list[Job] = []
    worker = fork_server.worker

    def counting(job: Job) -> WorkerProcess:
        started.append(job)
        return worker(job)

    monkeypatch.setattr(fork_server, "worker", counting)
    assert graded(RIGHT).verdict is Verdict.PASS
    assert len(started) == 3, "a reference, a worker and a witness"
    read = cache.read

    def slow(key: str) -> Frame | None:
        time.sleep(0.3)
        return read(key)

    monkeypatch.setattr(cache, "read", slow)  # as on a busy machine: the file has been loaded before
    assert graded(RENAMED).verdict is Verdict.PASS
    assert len(started) == 4, "a worker only"


def test_what_ran_after_another_program_counts_for_no_other_submission(graded, monkeypatch: pytest.MonkeyPatch):
    """A program could change the witness, and with it the results of all programs after it."""
    stored: list[str] = []
    write = cache.write

    def noted(key: str, frame: Frame) -> None:
        stored.append(key)
        write(key, frame)

    assert graded(RIGHT).verdict is Verdict.PASS
    monkeypatch.setattr(cache, "write", noted)
    assert graded(OTHER).verdict is Verdict.PASS
    of_all_programs = len(stored)
    assert of_all_programs > 1
    stored.clear()
    assert graded(FIRST_IS_OTHER).verdict is Verdict.PASS
    assert len(stored) == of_all_programs, "its other programs are those of the first submission"
    stored.clear()
    assert graded(RIGHT).verdict is Verdict.PASS
    assert not stored


def test_a_damaged_entry_of_the_cache_is_computed_again(graded, tmp_path: Path):
    assert graded(RIGHT).verdict is Verdict.PASS
    entries = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert entries
    for path in entries:
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert graded(RIGHT).verdict is Verdict.PASS
