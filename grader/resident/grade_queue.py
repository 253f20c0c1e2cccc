"""The queue of every program that grades files as they are saved: watch mode, the studio, and an editor's language
server."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from commandline.errors import CommandError
from grader.course.workspace import Workspace
from grader.errors import ClosedError, SupersededError
from grader.judge.judge import Listener
from grader.judge.submission import Submission
from grader.judge.verdict import CheckResult, Report
from grader.problem import Problem
from grader.resident import grade_file

EMPTY = 0.2  # seconds before an empty file is graded: many editors empty a file before they write it


@dataclass(frozen=True)
class Begun:
    """A grading begins."""


@dataclass(frozen=True)
class Graded:
    """A verdict. `submission` is None if the file could not be read, `digest` as `Workspace.remember` takes it."""

    report: Report
    submission: Submission | None
    digest: str


@dataclass(frozen=True)
class Failed:
    """There is no verdict, for a reason that is a sentence."""

    error: CommandError


@dataclass(frozen=True)
class Dropped:
    """There is no verdict, because a newer text is graded instead, or because the grading was stopped.

    `is_last` is False if another request for the file waits or runs.
    """

    is_last: bool


# The text that is graded is a Submission; progress in words is a str.
News = Begun | Submission | CheckResult | str | Graded | Failed | Dropped


@dataclass(frozen=True, eq=False)
class Request:
    """A request to grade the file of a problem in a workspace, with the text that it has when its turn comes.

    `publish` receives the events. The last one is one Graded, Failed or Dropped. If it raises CommandError on a Graded,
    it receives a Failed instead.
    """

    problem: Problem
    space: Workspace
    publish: Callable[[News], None]

    @property
    def file(self) -> Path:
        return self.space.file(self.problem)


class Judge(Protocol):
    """The interface of a judge, as `Resident` implements it."""

    def grade(self, problem: Problem, submission: Submission, *, listener: Listener) -> Report: ...

    def supersede(self, submission: Submission) -> None: ...


@dataclass
class _Running:
    request: Request
    submission: Submission | None = None  # once it was read
    is_ended: bool = False  # from outside: what its killed workers give is not published


class GradeQueue:
    """A thread that grades one file at a time, in the order of the requests. Methods may be called from any thread.

    The newest text of a file is always graded: a request replaces the one that waits for the same file, and ends the
    grading of an older text of it.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._waiting: dict[Path, Request] = {}
        self._running: _Running | None = None
        self._changed = threading.Condition()
        self._closed = False
        threading.Thread(target=self._run, daemon=True, name="grading").start()

    def request(self, request: Request) -> None:
        """Grades a file soon."""
        with self._changed:
            is_closed = self._closed
            replaced = request if is_closed else self._waiting.get(request.file)
            if not is_closed:
                self._waiting[request.file] = request  # it keeps its place
                self._changed.notify_all()
            running = self._running_of(request.file)
        if replaced:
            replaced.publish(Dropped(is_last=is_closed))
        with suppress(CommandError):
            if running and running.submission and running.submission != _read(request):
                self._end(running)

    def withdraw(self, file: Path) -> None:
        """Drops the request that waits for a file, if there is one. A grading that runs is not ended."""
        with self._changed:
            request, running = self._waiting.pop(file, None), self._running_of(file)
        if request:
            request.publish(Dropped(is_last=running is None))

    def stop(self, file: Path) -> None:
        """Ends the grading of a file, and drops the request that waits for it."""
        self.withdraw(file)
        with self._changed:
            running = self._running_of(file)
        if running:
            self._end(running)

    def close(self) -> None:
        """Drops the waiting requests, and accepts no more. A grading that runs ends with its judge, which the caller
        closes."""
        with self._changed:
            self._closed = True
            waiting = list(self._waiting.values())
            self._waiting.clear()
            self._changed.notify_all()
        for request in waiting:
            request.publish(Dropped(is_last=True))

    def _end(self, running: _Running) -> None:
        with self._changed:
            running.is_ended, submission = True, running.submission
        if submission:
            self._judge.supersede(submission)

    def _running_of(self, file: Path) -> _Running | None:
        return self._running if self._running and self._running.request.file == file else None

    def _run(self) -> None:
        while running := self._next():
            publish = running.request.publish
            try:
                publish(self._graded(running))
            except (SupersededError, ClosedError):
                with self._changed:
                    self._running, is_last = None, running.request.file not in self._waiting
                publish(Dropped(is_last))
            except CommandError as error:
                publish(Failed(error))
            except Exception as error:  # whatever went wrong, the next save is graded
                publish(Failed(CommandError(f"Internal error (not your fault): {type(error).__name__}: {error}")))

    def _next(self) -> _Running | None:
        """Returns the request that has waited for the longest. None at the end."""
        with self._changed:
            self._running = None
            self._changed.wait_for(lambda: self._closed or self._waiting)
            if self._closed:
                return None
            self._running = _Running(self._waiting.pop(next(iter(self._waiting))))
            return self._running

    def _graded(self, running: _Running) -> Graded:
        request = running.request
        problem, file, publish = request.problem, request.file, request.publish
        publish(Begun())
        with suppress(OSError):
            if not file.stat().st_size:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or file in self._waiting, EMPTY)
        digest = request.space.digest(problem)
        source = _read(request)
        with self._changed:
            if running.is_ended or file in self._waiting:
                raise SupersededError
            running.submission = submission = source if isinstance(source, Submission) else None
        if submission:
            publish(submission)

        def tell(news: str | CheckResult) -> None:
            if not (running.is_ended or self._closed):
                publish(news)

        def grade(submission: Submission) -> Report:
            return self._judge.grade(problem, submission, listener=Listener(tell, tell))

        return Graded(grade_file.report_on(problem, file.name, source, grade), submission, digest)


def _read(request: Request) -> Submission | str:
    return grade_file.read(request.problem, request.file, request.space.modules)
