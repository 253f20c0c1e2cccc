"""Plays the learner's files in the background, one at a time, and publishes each exhibit as soon as it is ready."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from commandline.errors import CommandError
from grader.course import plays
from grader.course.plays import Offer
from grader.course.workspace import Workspace
from grader.exhibits import Ending, Exhibit, Progress
from grader.judge import submission
from grader.judge.submission import Submission
from grader.play import play_session
from grader.play.play_session import Performance
from grader.problem import Problem
from grader.report import exhibits_own_run, exhibits_page, own_run
from grader.resident.resident import Resident
from studio.attempt_files import AttemptFile, with_line_feeds
from studio.events import Events
from studio.history import History

_LONGEST_END = 3.0  # seconds
SAVED, STOPPED = "Stopped: the file was saved.", "Stopped."


@dataclass
class _Showing:
    """One play of a file, and its exhibits so far.

    Attributes:
        problem: The problem.
        submission: The submission; None if it could not be read.
        text: The text to play with; None if the play takes none.
        digest: The digest of the file's text.
        exhibits: The exhibits so far, as JSON values.
        performance: The running performance.
        stopped: Why it was ended from outside; empty if it was not.
        ended: The event at its end; None before.
    """

    problem: Problem
    submission: Submission | None
    text: str | None
    digest: str = ""
    exhibits: list[dict[str, Any]] = field(default_factory=list)
    performance: Performance | None = None
    stopped: str = ""
    ended: dict[str, Any] | None = None

    def start(self) -> dict[str, Any]:
        """Returns the event that begins it."""
        return {"text": self.text, "digest": self.digest}


class Plays:
    """Plays files in background threads, one at a time. A newer play, or a save, ends the one before.

    A play that ends with the best run of the learner's own pieces finds it in the folder `runs`.

    Publishes on the topic of the problem's name: `play`, `training`, `exhibit` and `played`.
    """

    def __init__(
        self, space: Workspace, resident: Resident, history: History, events: Events, runs: Path | None = None
    ) -> None:
        self._space, self._resident, self._history, self._events = space, resident, history, events
        self._runs = runs
        self._now: _Showing | None = None
        self._shown: dict[str, _Showing] = {}
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None

    def request(self, problem: Problem, text: str | None = None) -> None:
        """Plays the problem's file as it is saved now. Does nothing if this very play is running. Raises UsageError."""
        default = plays.required(problem).text
        showing = _Showing(problem, None, None if default is None else text or default)
        try:
            showing.submission = submission.read(problem, self._space.file(problem))
            showing.digest = AttemptFile(with_line_feeds(showing.submission.sources[problem.name])).digest
        except (CommandError, submission.UnreadableSubmissionError) as error:
            showing.ended = _end(Ending(f"Nothing to play: {error}"))
        with self._lock:
            if (now := self._now) and (now.problem.name, now.submission, now.text) == (
                problem.name, showing.submission, showing.text,
            ):  # fmt: skip
                return
            self.stop()
            self._shown[problem.name] = showing
            self._events.publish(problem.name, "play", **showing.start())
            if showing.ended:
                self._events.publish(problem.name, "played", **showing.ended)
                return
            self._now = showing
            self._thread = threading.Thread(target=self._run, args=[showing], daemon=True, name="play")
            self._thread.start()

    def stop(self, why: str = STOPPED) -> None:
        """Ends the play that is running, if there is one."""
        with self._lock:
            showing, self._now = self._now, None
            if showing is None:
                return
            showing.stopped = why
            self._finish(showing, Ending())
        if showing.performance:
            showing.performance.close()

    def state(self, problem: Problem) -> list[tuple[str, dict[str, Any]]]:
        """Returns the events that bring a page that has just been opened up to date."""
        with self._lock:
            showing = self._shown.get(problem.name)
            if showing is None:
                return []
            events = [("play", showing.start()), *(("exhibit", exhibit) for exhibit in showing.exhibits)]
            return events + ([("played", showing.ended)] if showing.ended else [])

    def prepare(self, problem: Problem) -> None:
        """Starts the processes for a play of this problem."""
        if plays.find(problem):
            self._resident.prepare_worker(play_session.job(problem))

    def close(self) -> None:
        """Ends the play that is running, and its process."""
        self.stop()
        if self._thread:
            self._thread.join(_LONGEST_END)

    def _run(self, showing: _Showing) -> None:
        end = Ending()
        try:
            performance = self._performance(showing)
            if performance is None:
                return
            for item in performance:
                self._show(showing, item)
            if self._runs and plays.required(showing.problem).ends_with_run:
                for exhibit in exhibits_own_run.exhibits(own_run.best(self._runs)):
                    self._show(showing, exhibit)
            end = performance.ending()
        except CommandError as error:
            end = Ending(str(error))
        except Exception as error:  # whatever went wrong, the learner can play again
            end = Ending(f"Internal error (not your fault): {type(error).__name__}: {error}")
        with self._lock:
            if not showing.stopped:
                self._now = None
                self._finish(showing, end)
        self.prepare(showing.problem)

    def _performance(self, showing: _Showing) -> Performance | None:
        """Returns the performance, with a worker of its own. None if the play has been stopped meanwhile."""
        assert showing.submission is not None  # noqa: S101  else it has ended before it began
        performance = Performance(showing.problem, showing.submission, self._resident, showing.text)
        with self._lock:
            if not showing.stopped:
                showing.performance = performance
                return performance
        performance.close()
        return None

    def _show(self, showing: _Showing, item: Exhibit | Progress) -> None:
        name = str(showing.problem.name)
        if isinstance(item, Progress):
            event, values = "training", {"step": item.step, "steps": item.steps, "loss": f"{item.loss:.3g}"}
        else:
            event, values = "exhibit", {"title": item.title, "html": exhibits_page.render(item)}
        with self._lock:
            if showing.stopped:
                return
            if event == "exhibit":
                showing.exhibits.append(values)
            self._events.publish(name, event, **values)
        if not isinstance(item, Progress):
            self._history.show(name, item)

    def _finish(self, showing: _Showing, end: Ending) -> None:
        is_whole = not (end.said or showing.stopped)
        # A terminal may have another current folder than the studio.
        offer = plays.offer(showing.problem, self._space.file(showing.problem).absolute()) if is_whole else None
        showing.ended = _end(end, showing.stopped, offer)
        self._events.publish(showing.problem.name, "played", **showing.ended)


def _end(end: Ending, stopped: str = "", offer: Offer | None = None) -> dict[str, Any]:
    """Returns the event that ends a play."""
    return {"said": stopped or end.said, "html": exhibits_page.ending(end) + exhibits_page.offered(offer)}
