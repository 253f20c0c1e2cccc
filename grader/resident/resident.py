"""The resident judge: a fork server, spare workers and references that stay ready between two saves of a file."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Any, Self

from grader.course import cases, catalog, selection
from grader.errors import ClosedError, CourseError, SupersededError
from grader.isolation.job import Job
from grader.isolation.sandbox import ForkServer, WorkerProcess
from grader.judge import bundled_outputs, judge
from grader.judge import submission as submission_
from grader.judge.judge import CasesByGroup, Listener, Shared
from grader.judge.options import GradeOptions
from grader.judge.reference import Answers
from grader.judge.submission import Submission
from grader.judge.verdict import Report
from grader.problem import Problem
from grader.resident import version
from grader.resident.handlers import Handlers
from grader.resident.precompute import Precomputer
from grader.resident.server import Server
from grader.resident.worker_pool import WorkerPool

SPARES = 2  # a worker and a witness
PLAYERS = 1  # spare workers for a play
KEPT_PROBLEMS = 2  # problems whose reference worker keeps running
KEPT_SEEDS = 4  # of a problem, whose cases are kept
KEPT_SUPERSEDED = 8  # submissions whose grading was ended, perhaps before it began


class NewCodeError(CourseError):
    """The grader's own code, or a package that it uses, has changed since this process imported it."""

    def __init__(self) -> None:
        super().__init__("The grader's code or its packages have changed. Start this program again.")


@dataclass
class _Kept:
    """The objects of one problem that stay in memory."""

    problem: Problem
    reference: Answers
    cases: dict[int, CasesByGroup] = field(default_factory=dict)

    def drawn(self, seed: int) -> CasesByGroup:
        """Returns the cases of a seed: the same objects for every submission, so that the reference is asked once about
        each."""
        if seed not in self.cases:
            while len(self.cases) >= KEPT_SEEDS:
                del self.cases[next(iter(self.cases))]
            self.cases[seed] = cases.draw_all(self.problem, seed)
        return self.cases[seed]

    def forget(self) -> None:
        """Drops the reference outputs of all other cases."""
        self.reference.forget(case for drawn in self.cases.values() for group in drawn.values() for case in group)


class Resident:
    """Grades one submission at a time, from any thread; a later request waits. Use it as a context manager, or `close`
    it.

    An edit of a problem or a solution restarts its processes. While it lives, it grades for other processes of the same
    user that run the same course, and lends them its fork server. Only the latest such judge does so: clients no longer
    find the earlier ones.

    A lean one is for many learners on one machine. It starts the fork server when it is needed, until `rest`, and keeps
    no other process between two gradings.
    """

    def __init__(self, *, is_lean: bool = False) -> None:
        self._is_lean = is_lean
        self._code, self._problems = version.of_code(), version.of_problems()
        self._fork_server = ForkServer(starts=not is_lean)
        self._spares = WorkerPool(self._fork_server)
        self._players = WorkerPool(self._fork_server)
        self._ahead = Precomputer()
        self._kept: dict[str, _Kept] = {}
        self._graded = ""  # the name of the latest problem
        self._closed = False
        self._running: Submission | None = None  # what is being graded
        self._superseded = deque[Submission](maxlen=KEPT_SUPERSEDED)
        self._grading, self._changing = threading.Lock(), threading.RLock()
        self._background = ThreadPoolExecutor(1, thread_name_prefix="resident")
        self._started, self._worked, self._gradings = time(), monotonic(), 0
        self._server = Server(self._share, Handlers(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def is_grading(self) -> bool:
        """Whether a submission is being graded."""
        return self._grading.locked()

    @property
    def is_reachable(self) -> bool:
        """Whether other processes find it."""
        return self._server.is_reachable

    @property
    def idle_seconds(self) -> float:
        """The time since it last graded, started a worker, or lent its fork server."""
        return 0.0 if self.is_grading else monotonic() - self._worked

    def state(self) -> dict[str, Any]:
        """Returns the state to report to other processes: the course, the start, the number of gradings, and the idle
        time in seconds."""
        course = selection.selected().title
        return {"course": course, "started": self._started, "gradings": self._gradings, "idle": self.idle_seconds}

    def prepare(self, problem: Problem) -> None:
        """Starts, in the background, the processes for grading this problem."""
        with suppress(RuntimeError):  # it is being closed
            if self._is_lean:
                self._background.submit(self._wake)
            else:
                self._background.submit(self._prepare, problem.name)

    def rest(self) -> None:
        """Ends the fork server until it is needed again, unless a process that it forked is running."""
        with self._changing:
            if not (self.is_grading or self._fork_server.is_in_use):
                self._fork_server.close()

    def grade(
        self,
        problem: Problem,
        submission: Submission,
        options: GradeOptions | None = None,
        listener: Listener | None = None,
    ) -> Report:
        """Grades a submission as `judge.grade` does, with the problem as it is on disk now.

        Raises CourseError if the problem is unsound, NewCodeError if this program must be started again,
        SupersededError if `supersede` ended it, and ClosedError if `close` was called meanwhile.
        """
        options = options or GradeOptions()
        with self._grading:
            if self._closed:
                raise ClosedError
            self.refresh()
            self._graded = problem.name
            kept = self._keep(problem.name)
            shared = Shared(kept.reference, kept.drawn(options.seed))
            with self._changing:
                if self._is_superseded(submission):
                    raise SupersededError
                self._ahead.stop()
                self._fork_server.start()
                self._running = submission
                self._spares.resume()
            try:
                report = judge.grade(kept.problem, submission, self._spares, options, shared, listener)
            finally:
                self._worked, self._gradings = monotonic(), self._gradings + 1
                with self._changing:
                    self._running = None
                if self._closed:  # the report would be about killed workers
                    raise ClosedError
                kept.forget()
                if self._is_lean:
                    self._keep_nothing()
                self.prepare(kept.problem)
                if self._is_superseded(submission):
                    raise SupersededError
            return report

    def supersede(self, submission: Submission) -> None:
        """Ends the grading of exactly this `submission`, also one that has not begun: it raises SupersededError."""
        with self._changing:
            self._superseded.append(submission)
            if self._running is submission:
                self._spares.end()

    def _is_superseded(self, submission: Submission) -> bool:
        return any(each is submission for each in self._superseded)

    def refresh(self) -> None:
        """Restarts everything if a problem or a solution has changed. Raises NewCodeError if code has."""
        if version.of_code() != self._code:
            raise NewCodeError
        with self._changing:
            if (now := version.of_problems()) == self._problems:
                return
            self._problems = now
            self._stop()
            catalog.forget()
            self._fork_server = ForkServer(starts=not self._is_lean)
            self._spares, self._players = WorkerPool(self._fork_server), WorkerPool(self._fork_server)

    def worker(self, job: Job) -> WorkerProcess:
        """Returns a worker for something else than grading, such as a play. May be called while a submission is
        graded."""
        with self._changing:
            self._wake()
            return self._players.worker(job)

    def prepare_worker(self, job: Job) -> None:
        """Starts, in the background, a spare worker for `worker` to return. A lean judge has none."""
        with suppress(RuntimeError):  # it is being closed
            if not self._is_lean:
                self._background.submit(self._prepare_worker, job)

    def close(self) -> None:
        """Ends every process, and a grading that is running."""
        self._closed = True
        self._server.close()
        self._background.shutdown(cancel_futures=True)
        with self._changing:
            self._stop()  # now the grading fails
        with self._grading:
            pass

    def _stop(self) -> None:
        self._ahead.stop()
        self._spares.close()
        self._players.close()
        self._fork_server.close()
        self._keep_nothing()

    def _keep_nothing(self) -> None:
        with self._changing:
            for kept in self._kept.values():
                kept.reference.close()
            self._kept.clear()

    def _wake(self) -> None:
        """Starts the fork server if it rests."""
        with self._changing:
            self._worked = monotonic()
            self._fork_server.start()

    def _keep(self, name: str) -> _Kept:
        """Returns the kept objects of a problem, and makes it the most recent one. Closes those of the least recent
        problems."""
        with self._changing:
            problem = catalog.load(name)
            kept = self._kept.pop(name, None) or _Kept(problem, bundled_outputs.reference(problem, self._fork_server))
            self._kept[name] = kept
            others = [each for each in self._kept if each not in (name, self._graded)]
            for other in others[: max(len(self._kept) - KEPT_PROBLEMS, 0)]:
                self._kept.pop(other).reference.close()
            return kept

    def _prepare(self, name: str) -> None:
        with suppress(CourseError), self._changing:  # the grading itself reports it
            kept = self._keep(name)
            self._spares.fill(submission_.job(kept.problem), SPARES)
            kept.reference.start()
            drawn = kept.drawn(0)
            if not self._running:
                self._ahead.start(kept.problem, kept.reference, drawn)

    def _prepare_worker(self, job: Job) -> None:
        with self._changing:
            self._players.fill(job, PLAYERS)

    def _share(self, send: Callable[[ForkServer], None]) -> None:
        """Calls `send` with the fork server, unless it has imported a problem that has changed."""
        with self._changing:
            if version.of_problems() == self._problems:
                self._wake()
                send(self._fork_server)
