"""Grades a submission to an open task: one process traces it, and another runs what was traced, once for each seed."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from grader.course import workspace
from grader.isolation.job import Job
from grader.isolation.level import NOTHING_RUN, Isolation
from grader.isolation.sandbox import Workers
from grader.judge import submission as submission_
from grader.judge.stdout import without_logs
from grader.judge.submission import Submission
from grader.judge.worker_session import Failure, Say, Session
from grader.task import Task
from grader.tasks.offer import Weighed
from grader.wire.channel import ChannelError, Frame

WORKER = "grader.tasks.task_worker"
_SEEDS = (1 << 63) - 1  # from 1 on


@dataclass(frozen=True)
class Score:
    """What a submission to an open task got.

    Attributes:
        task: The task.
        filename: The name of the file.
        runs: What was found with each seed.
        of: The number of seeds of a full grading: with fewer runs, the score is of no class.
        failure: Why there is no score; None if there is one.
        stdout: What the submission printed while it was traced.
        isolation: The isolation of its worker.
        seconds: How long the grading took.
    """

    task: Task
    filename: str
    runs: Sequence[Weighed] = ()
    of: int = 0
    failure: Failure | None = None
    stdout: str = ""
    isolation: Isolation = NOTHING_RUN
    seconds: float = 0.0

    @property
    def value(self) -> int | None:
        """The score: that of the worst seed. None if a run failed or missed what the task asks for."""
        if self.failure or not self.runs or any(run.missed for run in self.runs):
            return None
        return max(run.score for run in self.runs)

    @property
    def missed(self) -> str:
        """Why a run does not count, as a clause; empty if all do."""
        return next((run.missed for run in self.runs if run.missed), "")

    @property
    def standard(self) -> str:
        """The name of the class; empty for none, and for a quick grading."""
        return "" if self.value is None or len(self.runs) < self.of else self.task.standard(self.value)


def job(task: Task) -> Job:
    """Returns the job of a worker for a task: of a submission, or a witness."""
    return replace(submission_.job(task), extension=WORKER)


def seeds(submission: Submission, secret: int, count: int) -> list[int]:
    """Returns the seeds of a grading. They depend on the text of the submission, so the same file always gets the same
    score, and no file can hold what it needs to know of its own seeds. `secret` is a teacher's, or 0."""
    digest = workspace.digest_of(submission.sources)
    texts = (json.dumps([digest, secret, number]) for number in range(count))
    return [1 + int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % _SEEDS for text in texts]


def grade(
    task: Task,
    submission: Submission,
    workers: Workers,
    *,
    secret: int = 0,
    quick: bool = False,
    say: Say = lambda text: None,
) -> Score:
    """Grades a submission with all seeds of the task, or with one if `quick`. Raises CourseError, WorkerStartError."""
    start = monotonic()
    worker = Session(task, workers.worker(job(task)), task.timeout)
    stdout, runs = "", list[Weighed]()
    try:
        say("tracing your program")
        offer = worker.load("", submission) or _only(worker, Frame("stream", {"variant": ""}), "offer")
    finally:
        stdout = without_logs(worker.worker.close())
    chosen = seeds(submission, secret, 1 if quick else task.seeds)
    failure = offer if isinstance(offer, Failure) else None
    if not isinstance(offer, Failure):
        failure = _weigh(task, offer, chosen, workers, runs, say)
    seconds = monotonic() - start
    return Score(task, submission.filename, runs, task.seeds, failure, stdout, worker.isolation, seconds)


def _weigh(
    task: Task, offer: Frame, chosen: Sequence[int], workers: Workers, runs: list[Weighed], say: Say
) -> Failure | None:
    """Adds a run for each seed to `runs`, up to the first that misses. Returns the failure that ended them, if any."""
    for number, seed in enumerate(chosen, 1):

        def progress(text: str, number: int = number) -> None:
            say(f"run {number} of {len(chosen)}, {text}")

        # A process of its own, because a program could have changed the one that it ran in.
        witness = Session(task, workers.worker(job(task)), task.run_seconds, progress)
        try:
            witness.begin()
            found = _only(witness, Frame("stream", {**_fields(offer), "seed": seed}, offer.leaves), "weighed")
        finally:
            witness.worker.close()
        if isinstance(found, Failure):
            return found
        try:
            runs.append(Weighed.decode(found))
        except ChannelError as error:
            return Failure("protocol", message=f"its result is malformed: {error}")
        if runs[-1].missed:
            return None
    return None


def _fields(offer: Frame) -> dict[str, Any]:
    return {"variant": "", **{name: offer.fields.get(name) for name in ("programs", "settings")}}


def _only(session: Session, request: Frame, kind: str) -> Frame | Failure:
    """Returns the one frame that a worker answers a request with."""
    answer = session.ask(request, kind)
    if not isinstance(answer, Failure) and isinstance(end := session.ask(None, "end"), Failure):
        return end
    return answer
