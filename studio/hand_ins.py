"""Hands in for the pages, on a hub, and tries again in the background while the service does not answer."""

import asyncio
import contextlib
import threading
from typing import Any

from commandline.errors import CommandError
from grader.course.workspace import Workspace
from grader.hand_in import KEPT, NotArrivedError, Outbox, Service
from grader.problem import Problem
from studio.events import Events

_AGAIN = 10.0  # seconds
EVENT = "handed-in"


class HandIns:
    """Hands in what is saved. Publishes EVENT on the topic of the problem's name when the service has answered late."""

    def __init__(self, space: Workspace, to: Service, events: Events) -> None:
        self._to, self._events = to, events
        self._outbox = Outbox(space, to)
        self._sending = threading.Lock()
        self._refused = dict[str, str]()  # by problem, what the service said against the last attempt

    async def keep_trying(self) -> None:
        """Sends what the service has not answered, again and again."""
        while True:
            with contextlib.suppress(CommandError, OSError):
                await asyncio.to_thread(self._send)
            await asyncio.sleep(_AGAIN)

    def hand_in(self, problem: Problem) -> dict[str, Any]:
        """Hands in the problem's file as it is saved, and returns what a page shows. Raises UsageError."""
        self._outbox.put(problem)
        self._refused.pop(problem.name, None)
        try:
            self._send()
        except NotArrivedError as error:
            return _silent(error, waits=True)
        return self.state(problem)

    def state(self, problem: Problem) -> dict[str, Any]:
        """Returns what a page shows: a sentence on the last attempt, lines on all of them, the newest first, and
        whether there is more to come."""
        waits = problem.name in self._outbox.waiting()
        try:
            attempts = self._to.attempts(problem)
        except CommandError as error:
            return _silent(error, waits)
        lines = [_line(attempt) for attempt in reversed(attempts)]
        is_graded = not attempts or attempts[-1]["result"]
        said = KEPT if waits else self._refused.get(problem.name, lines[0] if lines else "")
        return {"said": said, "lines": lines, "waits": waits or not is_graded}

    def _send(self) -> None:
        """Sends what has not been answered. Raises NotArrivedError."""
        with self._sending:
            for sent in self._outbox.send():
                if not sent.is_received:
                    self._refused[sent.problem.name] = sent.said
                self._events.publish(sent.problem.name, EVENT)


def _silent(error: CommandError, waits: bool) -> dict[str, Any]:
    return {"said": f"{error} {KEPT if waits else ''}".rstrip(), "lines": [], "waits": True}


def _line(attempt: dict[str, Any]) -> str:
    """Returns a sentence on an attempt, and what the learner may read of its result."""
    result = attempt["result"]
    if not result:
        return str(attempt["said"])
    text = f"{attempt['said']} {result['verdict']}, {result['score']} of {result['points']} points."
    failed = [check for check in result.get("checks", ()) if not check["passed"]]
    if failed:
        text += f" Not passed: {', '.join(check['name'] for check in failed)}."
    if result.get("misconception"):
        text += f" Likely cause: {result['misconception']}."
    elif failed and failed[0]["message"]:
        text += f" {failed[0]['name']}: {failed[0]['message'].rstrip('.')}."
    if result.get("counts"):
        mark = result["mark"]
        text += " This attempt counts" + (f", with a mark of {mark:g}." if mark != result["score"] else ".")
    return text
