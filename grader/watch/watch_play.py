"""The play of a file that watch mode has graded, in the background: its first exhibit, or all of it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from commandline.errors import CommandError
from grader.exhibits import Exhibit, Progress
from grader.isolation.sandbox import Workers
from grader.judge.submission import Submission
from grader.play.play_session import Performance
from grader.problem import Problem


@dataclass
class Shown:
    """What a play has shown so far.

    Attributes:
        is_whole: Whether all of it is played, and not only its first exhibit.
        exhibits: The exhibits that are ready.
        note: The progress of a training between them; empty at the end.
        said: Why it ended early; empty if it did not.
        is_over: Whether it has ended.
    """

    is_whole: bool
    exhibits: list[Exhibit] = field(default_factory=list)
    note: str = ""
    said: str = ""
    is_over: bool = False


class WatchPlay:
    """Plays one file at a time. Calls `changed` from another thread when there is more to show."""

    def __init__(self, workers: Workers, changed: Callable[[], None]) -> None:
        self.shown: Shown | None = None
        self._workers, self._changed = workers, changed
        self._performance: Performance | None = None
        self._lock = threading.Lock()

    def begin(self, problem: Problem, submission: Submission, *, is_whole: bool) -> None:
        """Starts a play, and ends the one before."""
        self.end()
        self.shown = shown = Shown(is_whole)
        threading.Thread(target=self._run, args=[problem, submission, shown], daemon=True).start()

    def end(self) -> None:
        """Ends the play, if there is one. Nothing of it is shown any more."""
        with self._lock:
            performance, self._performance, self.shown = self._performance, None, None
        if performance:
            performance.close()

    def _run(self, problem: Problem, submission: Submission, shown: Shown) -> None:
        try:
            performance = Performance(problem, submission, self._workers)
            with self._lock:
                is_wanted = self.shown is shown
                if is_wanted:
                    self._performance = performance
            if is_wanted:
                self._show(performance, shown)
            performance.close()
        except CommandError as error:
            shown.said = str(error)
        shown.is_over, shown.note = True, ""
        if self.shown is shown:
            self._changed()

    def _show(self, performance: Performance, shown: Shown) -> None:
        for item in performance:
            if isinstance(item, Progress):
                shown.note = item.said
            else:
                shown.exhibits.append(item)
            if self.shown is not shown:
                return
            if shown.exhibits and not shown.is_whole:
                return
            self._changed()
        shown.said = performance.ending().said
