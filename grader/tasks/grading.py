"""Grades a submission to an open task: one process traces it, and another runs what was traced, once for each seed."""

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from time import monotonic

from grader.course import workspace
from grader.isolation.job import Job
from grader.isolation.level import NOTHING_RUN, Isolation
from grader.isolation.sandbox import Workers
from grader.judge import submission as submission_
from grader.judge.stdout import without_logs
from grader.judge.submission import Submission
from grader.judge.worker_session import Failure, Say, Session
from grader.task import Task
from grader.tasks.offer import Weighed, file_of, saved
from grader.wire.channel import ChannelError, Frame

OFFER, EVIDENCE = "grader.tasks.offer_worker", "grader.tasks.evidence_worker"
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


def job(task: Task, worker: str = EVIDENCE) -> Job:
    """Returns the job of a worker for a task. The one that traces a submission cannot read what makes data."""
    plain = replace(submission_.job(task), extension=worker)
    found = find_spec("harness") if worker == OFFER else None
    return replace(plain, hidden=(*plain.hidden, *map(Path, (found and found.submodule_search_locations) or ())))


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
    start, runs, empty = monotonic(), list[Weighed](), Score(task, submission.filename, of=task.seeds)
    if failure := _too_long(task, submission):
        return replace(empty, failure=failure)
    file, printed = Frame("saved"), ""
    if task.saves:
        say("letting your program make its file")
        made, printed, isolation = _asked(task, submission, workers, EVIDENCE, Frame("saved"))
        if isinstance(made, Failure):
            return replace(empty, failure=made, stdout=printed, isolation=isolation, seconds=monotonic() - start)
        file = saved(file_of(made))
    say("tracing your program")
    offer, stdout, isolation = _asked(task, submission, workers, OFFER, Frame("offer", {}, file.leaves))
    stdout = printed + stdout
    found = offer
    if task.learns and isinstance(offer, Frame):
        say("letting your program read public data")
        fields = {"settings": offer.fields.get("settings")}
        found, more, _ = _asked(task, submission, workers, EVIDENCE, Frame("learned", fields))
        stdout += more
    if isinstance(offer, Frame) and isinstance(found, Frame):
        fields = {name: offer.fields.get(name) for name in ("programs", "settings")}
        learned = found.fields.get("learned") if task.learns else {}
        leaves = [*(leaf for leaf in offer.leaves if "/" in leaf.path), *file.leaves]  # a file of the judge's only
        request = Frame("stream", {"variant": "", **fields, "learned": learned}, leaves)
        failure = _weigh(task, request, seeds(submission, secret, 1 if quick else task.seeds), workers, runs, say)
    elif isinstance(found, Failure):  # the offer's, if there is none
        failure = found
    seconds = monotonic() - start
    return replace(empty, runs=runs, failure=failure, stdout=stdout, isolation=isolation, seconds=seconds)


def _too_long(task: Task, submission: Submission) -> Failure | None:
    """Returns a failure if the texts of a submission could hold more than a program."""
    size = len(zlib.compress("".join(submission.sources.values()).encode("utf-8", "replace"), 9))
    if not task.text_bytes or size <= task.text_bytes:
        return None
    return Failure(
        "refused",
        message=f"your file and the files that it imports have {size:,} bytes when they are compressed, and the limit "
        f"is {task.text_bytes:,}: what they know must stand where it is counted",
    )


def _asked(
    task: Task, submission: Submission, workers: Workers, worker: str, asked: Frame
) -> tuple[Frame | Failure, str, Isolation]:
    """Returns what a new process with the submission answers, what it printed, and its isolation. The answer is a frame
    of the kind that is asked for."""
    session = Session(task, workers.worker(job(task, worker)), task.timeout)
    try:
        request = Frame("stream", {"variant": "", **asked.fields}, asked.leaves)
        answer = session.load("", submission) or _only(session, request, asked.kind)
    finally:
        stdout = without_logs(session.worker.close())
    return answer, stdout, session.isolation


def _weigh(
    task: Task, request: Frame, chosen: Sequence[int], workers: Workers, runs: list[Weighed], say: Say
) -> Failure | None:
    """Adds a run for each seed to `runs`, up to the first that misses. Returns the failure that ended them, if any."""
    for number, seed in enumerate(chosen, 1):

        def progress(text: str, number: int = number) -> None:
            say(f"run {number} of {len(chosen)}, {text}")

        # A process of its own, because a program could have changed the one that it ran in.
        witness = Session(task, workers.worker(job(task)), task.run_seconds, progress)
        try:
            witness.begin()
            found = _only(witness, replace(request, fields={**request.fields, "seed": seed}), "weighed")
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


def _only(session: Session, request: Frame, kind: str) -> Frame | Failure:
    """Returns the one frame that a worker answers a request with."""
    answer = session.ask(request, kind)
    if not isinstance(answer, Failure) and isinstance(end := session.ask(None, "end"), Failure):
        return end
    return answer
