"""Grades the learner's files in the background, one at a time, and publishes what comes back."""

import contextlib
import queue
import threading
from typing import Any

from commandline.errors import CommandError
from grader.course.log import Progress
from grader.course.workspace import Workspace
from grader.errors import SupersededError
from grader.isolation import scratch
from grader.judge import judge, submission
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.problem import Problem
from grader.report import html_report
from grader.resident.resident import Resident
from studio import attempt_files
from studio.events import Events
from studio.history import History

_LONGEST_END = 3.0  # seconds


class Grading:
    """A thread that grades. A problem that waits is graded once, with the text that its file has by then.

    Publishes on the topic of the problem's name: `grading`, `check`, `progress`, and `verdict` or `stopped`.
    """

    def __init__(self, space: Workspace, history: History, events: Events) -> None:
        self._space, self._history, self._events = space, history, events
        self._queue: queue.SimpleQueue[Problem | None] = queue.SimpleQueue()
        self._waiting: set[str] = set()
        self._lock = threading.Lock()
        self._graded: dict[str, dict[str, str]] = {}
        self._verdicts: dict[str, dict[str, Any]] = {}
        self._reports: dict[str, Report] = {}
        self._now: dict[str, list[dict[str, Any]]] = {}
        self.resident = Resident()
        self._thread = threading.Thread(target=self._run, daemon=True, name="grading")
        self._thread.start()

    def request(self, problem: Problem) -> None:
        """Grades the problem's file soon. Ends the grading of a former text, which has no verdict."""
        with self._lock:
            is_new = problem.name not in self._waiting
            self._waiting.add(problem.name)
        if is_new:
            self._queue.put(problem)
        with contextlib.suppress(CommandError, submission.UnreadableSubmissionError):
            self.resident.supersede(problem, submission.read(problem, self._space.file(problem)))

    def stop(self, problem: Problem) -> None:
        """Ends the grading of the problem, or what waits for it. There is no verdict."""
        with self._lock:
            self._waiting.discard(problem.name)
        self.resident.supersede(problem)

    def state(self, problem: Problem) -> list[tuple[str, dict[str, Any]]]:
        """The events that tell a page what it would know if it had been open before."""
        with self._lock:
            now, verdict = self._now.get(problem.name), self._verdicts.get(problem.name)
            events = [("verdict", verdict)] if verdict else []
            if now is not None:
                events += [("grading", {}), *(("check", check) for check in now)]
            return events

    def report(self, problem: Problem) -> Report | None:
        """The last verdict of the problem, if it has been graded since the studio began."""
        with self._lock:
            return self._reports.get(problem.name)

    def is_graded(self, problem: Problem, sources: dict[str, str]) -> bool:
        """Whether the last grading of the problem was of these very texts."""
        with self._lock:
            return self._graded.get(problem.name) == sources

    def prepare(self, problem: Problem) -> None:
        """Starts what grading this problem will need."""
        self.resident.prepare(problem)

    def close(self) -> None:
        """Ends all processes. A grading that takes long is not waited for: its processes end with this one."""
        self._queue.put(None)
        closing = threading.Thread(target=self.resident.close, daemon=True)
        closing.start()
        closing.join(_LONGEST_END)
        scratch.leave()

    def _run(self) -> None:
        while (problem := self._queue.get()) is not None:
            with self._lock:
                if problem.name not in self._waiting:
                    continue  # it was stopped
                self._waiting.discard(problem.name)
                self._now[problem.name] = []
            self._events.publish(problem.name, "grading")
            try:
                verdict = self._grade(problem)
            except SupersededError:
                self._superseded(problem)
                continue
            except Exception as error:  # whatever went wrong, the learner can save again
                verdict = {"failed": str(error) or type(error).__name__}
            with self._lock:
                self._verdicts[problem.name] = verdict
                self._now.pop(problem.name, None)
            self._events.publish(problem.name, "verdict", **verdict)

    def _superseded(self, problem: Problem) -> None:
        """Says that a grading was stopped, unless another one follows."""
        with self._lock:
            if problem.name in self._waiting:
                return
            self._now.pop(problem.name, None)
        self._events.publish(problem.name, "stopped")

    def _grade(self, problem: Problem) -> dict[str, Any]:
        """Grades a problem's file and remembers the verdict."""
        digest = self._space.digest(problem)
        report, text = self._report(problem)
        with self._lock:
            self._reports[problem.name] = report
        cause = report.misconception.name if report.misconception else ""
        if text is not None:
            attempt = self._history.attempt_with(problem.name, text)
            self._history.grade(attempt, str(report.verdict), report.score, problem.points, cause)
        before = self._space.progress().get(problem.name, Progress()).verdict
        self._space.remember(problem, verdict=str(report.verdict), score=report.score, digest=digest, mistake=cause)
        following = self._space.next_problem(problem) if report.verdict is Verdict.PASS else None
        return {**encode(report, following), "first": report.verdict is Verdict.PASS and before != Verdict.PASS}

    def _report(self, problem: Problem) -> tuple[Report, str | None]:
        path = self._space.file(problem)
        try:
            source = submission.read(problem, path)
            text = attempt_files.with_line_feeds(source.sources[problem.name])
        except (CommandError, submission.UnreadableSubmissionError) as error:
            return judge.refused(problem, path.name, Verdict.ERROR, str(error)), None
        with self._lock:
            self._graded[problem.name] = dict(source.sources)

        def on_check(result: CheckResult) -> None:
            row = encode_check(result)
            with self._lock:
                self._now[problem.name].append(row)
            self._events.publish(problem.name, "check", **row)

        def say(words: str) -> None:
            self._events.publish(problem.name, "progress", words=words)

        return self.resident.grade(problem, source, listener=judge.Listener(say, on_check)), text


def encode_check(result: CheckResult) -> dict[str, Any]:
    """The result of a check as JSON values."""
    check = result.check
    return {
        "name": check.name, "passed": result.passed, "points": check.points, "verdict": str(result.verdict),
        "message": result.message,
    }  # fmt: skip


def encode(report: Report, following: Problem | None = None) -> dict[str, Any]:
    """A verdict as JSON values. Includes the report as HTML and, after a pass, the next problem."""
    return {
        "verdict": str(report.verdict), "score": report.score, "points": report.problem.points,
        "checks": [encode_check(result) for result in report.checks],
        "cause": report.misconception.name if report.misconception else "", "html": html_report.render(report, play=""),
        "next": {"label": following.label, "title": following.title} if following else None,
    }  # fmt: skip
