"""The state behind the studio's pages: the workspace, its history, the background tasks, and the events."""

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from watchfiles import awatch

from commandline.errors import CommandError, UsageError
from commandline.problem_name import ProblemName
from grader.course import catalog
from grader.course.workspace import Workspace
from grader.hand_in import service
from grader.judge import submission
from grader.problem import Problem
from studio import attempt_files, plays
from studio.costs import Costs
from studio.events import Events
from studio.grading import Grading
from studio.hand_ins import HandIns
from studio.history import History
from studio.plays import Plays
from studio.trials import Trials

_LOOK = 1.0  # seconds between two looks whether there is nothing to do
IDLE = "GPT_KATA_IDLE"  # the environment variable; see `_idle_seconds`
_DEBOUNCE, _STEP = 200, 50  # milliseconds; an editor may write a file in several steps


class Studio:
    """The state that all pages share. `running` starts and ends the background tasks."""

    def __init__(self, space: Workspace, runs: Path | None = None) -> None:
        self.space, self.runs_folder = space, runs
        self.events = Events()
        self.history = History(space.folder)
        self._idle = _idle_seconds()
        self.grading = Grading(space, self.history, self.events, is_lean=self._idle is not None)
        self.plays = Plays(space, self.grading.resident, self.history, self.events, runs)
        self.trials = Trials(space)
        self.costs = Costs(space, self.grading.resident)
        to = service()
        self.hand_ins = HandIns(space, to, self.events) if to else None
        self._saving = threading.Lock()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Delivers events and works in the background until the end of the context. Then ends all processes."""
        self.events.open()
        stop = asyncio.Event()
        tasks = [asyncio.create_task(work) for work in self._background(stop)]
        try:
            yield
        finally:
            self.events.close()
            stop.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*map(asyncio.to_thread, self._closers()))
            self.history.close()

    def _background(self, stop: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
        """Returns the background tasks of the studio."""
        tasks = [self._watch(stop)]
        if self.hand_ins:
            tasks.append(self.hand_ins.keep_trying())
        if self._idle is not None:
            tasks.append(self._rest(self._idle))
        return tasks

    async def _rest(self, idle: float) -> None:
        """Ends the fork server when nothing was graded or opened for so many seconds."""
        while True:
            await asyncio.sleep(_LOOK)
            if self.grading.resident.idle_seconds >= idle:
                await asyncio.to_thread(self.grading.resident.rest)

    def _closers(self) -> list[Callable[[], None]]:
        """Returns the functions that end the processes that the studio has started."""
        return [self.trials.close, self.plays.close, self.grading.close]

    def save(self, problem: Problem, text: str, base: str) -> attempt_files.AttemptFile:
        """Writes the learner's file, keeps its text and grades it. Raises ConflictError and UsageError."""
        with self._saving:
            file = attempt_files.save(self.space, problem, text, base)
        self.history.keep(problem.name, file.text)
        self.grade(problem)
        return file

    def grade(self, problem: Problem) -> None:
        """Grades the learner's file as it is. Ends a play, which was of a former text and would take time from the
        grading."""
        self.plays.stop(plays.SAVED)
        self.grading.request(problem)

    async def _watch(self, stop: asyncio.Event) -> None:
        """Grades the files that other programs save. Polls where the system cannot report changes."""
        for polls in (None, True):
            changes = awatch(
                self.space.folder, recursive=False, debounce=_DEBOUNCE, step=_STEP, stop_event=stop, force_polling=polls
            )
            with contextlib.suppress(OSError):
                async for batch in changes:
                    names = {Path(path).stem for _, path in batch if path.endswith(".py")}
                    await asyncio.to_thread(self._changed, names & set(catalog.names()))
                return

    def _changed(self, names: set[str]) -> None:
        for name in names:
            with contextlib.suppress(CommandError):  # the next reader of the file gets the error
                file = attempt_files.read(self.space, catalog.load(name))
                self.events.publish(name, "file", digest=file.digest)
                self.history.keep(name, file.text)
        for name in {*names, *self.events.topics()} & set(catalog.names()):
            self._grade_if_new(catalog.load(name), names)

    def _grade_if_new(self, problem: Problem, changed: set[str]) -> None:
        """Grades a problem whose file, or a file that it imports, has changed since it was graded."""
        try:
            sources = dict(submission.read(problem, self.space.file(problem)).sources)
        except (CommandError, submission.UnreadableSubmissionError):
            sources = {problem.name: ""}
        if changed & set(map(ProblemName, sources)) and not self.grading.is_graded(problem, sources):
            self.grade(problem)


def _idle_seconds() -> float | None:
    """Returns for how long the fork server waits for work where memory is for many; None where it is for one learner.
    Raises UsageError if the minutes in the environment are none."""
    minutes = os.environ.get(IDLE)
    try:
        return None if minutes is None else float(minutes) * 60
    except ValueError:
        raise UsageError(f"{IDLE}={minutes} is not a number of minutes; ask who runs the hub.") from None
