"""Grades the learner's files in the background, and publishes the results."""

import threading
from functools import partial
from typing import Any

from grader.course.log import Progress
from grader.course.workspace import Workspace
from grader.isolation import scratch
from grader.judge.submission import Submission
from grader.judge.verdict import CheckResult, Report, Verdict
from grader.problem import Problem
from grader.report import html_report
from grader.resident import grade_file
from grader.resident.grade_queue import Begun, Dropped, Failed, Graded, GradeQueue, News, Request
from grader.resident.resident import Resident
from studio import attempt_files
from studio.events import Events
from studio.history import History

_LONGEST_END = 3.0  # seconds


class Grading:
    """Grades problems for the pages, and keeps the results. A waiting problem is graded once, with the text that its
    file has by then.

    Publishes on the topic of the problem's name: `grading`, `check`, `progress`, and `verdict` or `stopped`.
    """

    def __init__(self, space: Workspace, history: History, events: Events, *, is_lean: bool = False) -> None:
        self._space, self._history, self._events = space, history, events
        self._lock = threading.Lock()  # held while what follows changes
        self._graded: dict[str, dict[str, str]] = {}
        self._verdicts: dict[str, dict[str, Any]] = {}
        self._reports: dict[str, Report] = {}
        self._now: dict[str, list[dict[str, Any]]] = {}
        self.resident = Resident(is_lean=is_lean)
        self._queue = GradeQueue(self.resident)

    def request(self, problem: Problem) -> None:
        """Grades the problem's file soon. Ends the grading of a former text, which has no verdict."""
        self._queue.request(Request(problem, self._space, partial(self._publish, problem)))

    def stop(self, problem: Problem) -> None:
        """Ends the grading of the problem, also if it has not begun. There is no verdict."""
        self._queue.stop(self._space.file(problem))

    def state(self, problem: Problem) -> list[tuple[str, dict[str, Any]]]:
        """Returns the events that bring a page that has just been opened up to date."""
        with self._lock:
            now, verdict = self._now.get(problem.name), self._verdicts.get(problem.name)
            events = [("verdict", verdict)] if verdict else []
            if now is not None:
                events += [("grading", {}), *(("check", check) for check in now)]
            return events

    def report(self, problem: Problem) -> Report | None:
        """Returns the last verdict of the problem, if it has been graded since the studio began."""
        return self._reports.get(problem.name)

    def is_graded(self, problem: Problem, sources: dict[str, str]) -> bool:
        """Returns whether the last grading of the problem was of these very texts."""
        return self._graded.get(problem.name) == sources

    def prepare(self, problem: Problem) -> None:
        """Starts the processes for grading this problem."""
        self.resident.prepare(problem)

    def close(self) -> None:
        """Ends all processes. A grading that takes long is not waited for: its processes end with this one."""
        self._queue.close()
        closing = threading.Thread(target=self.resident.close, daemon=True)
        closing.start()
        closing.join(_LONGEST_END)
        scratch.leave()

    def _publish(self, problem: Problem, news: News) -> None:
        """Publishes the events of a grading of the problem. Raises UsageError if its verdict cannot be recorded."""
        match news:
            case Begun():
                with self._lock:
                    self._now[problem.name] = []
                self._events.publish(problem.name, "grading")
            case Submission():
                self._graded[problem.name] = dict(news.sources)
            case CheckResult():
                row = encode_check(news)
                with self._lock:
                    self._now.setdefault(problem.name, []).append(row)
                self._events.publish(problem.name, "check", **row)
            case str():
                self._events.publish(problem.name, "progress", words=news)
            case Graded():
                self._end(problem, self._recorded(problem, news))
            case Failed():
                self._end(problem, {"failed": str(news.error)})
            case Dropped(is_last=True):
                with self._lock:
                    self._now.pop(problem.name, None)
                self._events.publish(problem.name, "stopped")

    def _end(self, problem: Problem, verdict: dict[str, Any]) -> None:
        with self._lock:
            self._verdicts[problem.name] = verdict
            self._now.pop(problem.name, None)
        self._events.publish(problem.name, "verdict", **verdict)

    def _recorded(self, problem: Problem, graded: Graded) -> dict[str, Any]:
        """Returns the verdict as JSON values, which is also recorded in the workspace and in the history. Raises
        UsageError."""
        report = self._reports[problem.name] = graded.report
        if graded.submission:
            attempt = self._history.attempt_with(
                problem.name, attempt_files.with_line_feeds(graded.submission.sources[problem.name])
            )
            cause = report.misconception.name if report.misconception else ""
            self._history.grade(attempt, str(report.verdict), report.score, problem.points, cause)
        before = self._space.progress().get(problem.name, Progress()).verdict
        grade_file.remember(self._space, report, graded.digest)
        following = self._space.next_problem(problem) if report.verdict is Verdict.PASS else None
        done = self._space.finished(problem) if report.verdict is Verdict.PASS else ""
        return {
            **encode(report, following),
            "done": done,
            "first": report.verdict is Verdict.PASS and before != Verdict.PASS,
        }


def encode_check(result: CheckResult) -> dict[str, Any]:
    """Returns the result of a check as JSON values."""
    check = result.check
    return {
        "name": check.name, "passed": result.passed, "points": check.points, "verdict": str(result.verdict),
        "message": result.message,
    }  # fmt: skip


def encode(report: Report, following: Problem | None = None) -> dict[str, Any]:
    """Returns a verdict as JSON values. Includes the report as HTML and, after a pass, the next problem."""
    return {
        "verdict": str(report.verdict), "score": report.score, "points": report.problem.points,
        "can_play": report.can_play,
        "checks": [
            {**encode_check(result), "later": not stage.reached} for stage in report.stages for result in stage.checks
        ],
        "stages": [stage.heading() for stage in report.stages if stage.name],
        "cause": report.misconception.name if report.misconception else "", "html": html_report.render(report, play=""),
        "next": {"label": following.label, "title": following.title} if following else None,
    }  # fmt: skip
