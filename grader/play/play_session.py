"""Plays a submission: starts a confined worker, reads the exhibits that it sends, and ends it."""

from collections.abc import Iterator
from dataclasses import replace

from grader.course import catalog, plays
from grader.exhibits import Ending, Exhibit, ExhibitError, Progress, decode
from grader.isolation.job import Job
from grader.isolation.sandbox import Workers
from grader.judge import passes
from grader.judge import submission as submission_
from grader.judge.submission import Submission
from grader.judge.worker_session import Failure, Session
from grader.play.comparison import compared
from grader.problem import Problem
from grader.wire.channel import Frame

ACTOR = "grader.play.play_worker"
CPU_SECONDS, TRAINING_CPU_SECONDS = 10.0, 60.0
PATIENCE = 6.0  # times that many seconds may pass, because other programs use the cores, too
MOST_EXHIBITS = 24
MOST_PROGRESS = 10_000  # reports


def job(problem: Problem) -> Job:
    """Returns the job of a worker that plays."""
    return replace(submission_.job(problem), extension=ACTOR)


class Performance:
    """One play of a submission. Iterate over it once: each exhibit is yielded as soon as it is ready.

    Afterwards, `failure` is the reason why it ended early, if it did, `printed` the output that the submission printed,
    and `compared` how its exhibits differ from those of a right file. That is measured with `compare`, unless it is
    known that the submission passes.
    """

    def __init__(
        self,
        problem: Problem,
        submission: Submission,
        workers: Workers,
        text: str | None = None,
        *,
        compare: bool = True,
    ) -> None:
        self.problem, self._submission, self._workers = problem, submission, workers
        self._compares = compare and catalog.has_solution(problem)
        self._play = plays.required(problem)
        self._text = self._play.text if text is None else text
        self.cpu_seconds = TRAINING_CPU_SECONDS if self._play.trains else CPU_SECONDS
        self.failure: Failure | None = None
        self.printed = self.compared = ""
        self._closed = False
        self._session = self._new_session()

    def _new_session(self) -> Session:
        return Session(self.problem, self._workers.worker(job(self.problem)), PATIENCE * self.cpu_seconds)

    def __iter__(self) -> Iterator[Exhibit | Progress]:
        """Yields the exhibits, and reports of progress between them. Raises WorkerStartError, and CourseError if the
        play is unsound."""
        shown: list[Exhibit] = []
        try:
            for item in self._exhibits(self._submission):
                if not isinstance(item, Progress):
                    shown.append(item)
                yield item
        finally:
            self.printed = self._session.worker.close()
        wanted = self._compares and self.failure is None and not self._closed
        if wanted and not passes.is_known(self.problem, self._submission.sources):
            yield from self._compare(shown)

    def close(self) -> None:
        """Ends the worker, also in the middle of a play."""
        self._closed = True
        self._session.worker.close()

    def _compare(self, shown: list[Exhibit]) -> Iterator[Progress]:
        """Plays the reference, and compares its exhibits with those that were `shown`. Says nothing if it fails."""
        self._session = self._new_session()
        right: list[Exhibit] = []
        try:
            for item in self._exhibits(submission_.reference(self.problem)):
                if isinstance(item, Progress):
                    yield item
                else:
                    right.append(item)
        finally:
            self._session.worker.close()
        if self.failure is None:
            self.compared = compared(shown, right)
        self.failure = None

    def _exhibits(self, submission: Submission) -> Iterator[Exhibit | Progress]:
        """Yields what the play of a submission sends, and sets `failure`."""
        self.failure = self._session.load("", submission)
        if self.failure is not None:
            return
        request: Frame | None = Frame("stream", {"variant": "", "text": self._text, "cpu": self.cpu_seconds})
        shown = reports = 0
        while shown <= MOST_EXHIBITS and reports <= MOST_PROGRESS:
            answer = self._session.ask(request, "exhibit", "end")
            if isinstance(answer, Failure):
                self.failure = answer
                return
            if answer.kind == "end":
                return
            try:
                exhibit = decode(answer.fields)
            except ExhibitError as error:
                self.failure = Failure("protocol", message=f"it sent something that is no exhibit: {error}")
                return
            if isinstance(exhibit, Progress):
                reports += 1
            else:
                shown += 1
            yield exhibit
            request = None
        self.failure = Failure("protocol", message=f"it sent more than {MOST_EXHIBITS} exhibits")

    def ending(self) -> Ending:
        """Returns the end of the play. Call it once the play has ended."""
        failure = self.failure
        has_frames = failure is not None and failure.frames and failure.kind != "not_implemented"
        frames = failure.frames_text() if failure and has_frames else ""
        return Ending(self.told() if failure else "", frames, self.printed.strip(), self.compared)

    def told(self) -> str:
        """Explains in one sentence why the play ended early."""
        failure = self.failure
        assert failure is not None  # noqa: S101  the caller asked
        where = f" ({failure.frames[-1][0]}, line {failure.frames[-1][1]})" if failure.frames else ""
        if failure.kind == "timeout":
            return (
                f"The play was stopped after {self.cpu_seconds:g} s of computing{where}: your code never ends, or "
                "takes long in a whole model, as a loop of Python over the tokens does."
            )
        if failure.kind == "not_implemented":
            return f"Nothing to play yet: your file is not implemented{where}."
        if failure.kind == "raised" and not failure.frames:
            said = f"{failure.type}: {' '.join(failure.message.split())}"
            return (
                f"The play cannot use what your code returned ({said}). `grade problem {self.problem.label}` says more."
            )
        said = failure.sentence()
        return f"The play ended early: {said}{'' if said.endswith(('.', '?', '!')) else '.'}"
