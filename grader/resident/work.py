"""What a resident judge does for other processes: grades and plays what they send, and says how it is."""

import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from commandline import invocation
from commandline.errors import CommandError
from grader.course import catalog
from grader.errors import WorkerStartError
from grader.exhibits import Progress
from grader.judge.judge import GradeOptions
from grader.resident.line import GoneError, Line
from grader.resident.question import Answer, PlayQuestion, Question

if TYPE_CHECKING:
    from grader.resident.resident import Resident

_PATIENCE = 5.0  # seconds for a client to send its files, and to read its answer
_LOOK = 200  # milliseconds between two looks whether a client is still there


class Work:
    """Works for the clients of a resident judge. What it cannot do, it does not answer: the client then does it itself."""

    def __init__(self, resident: "Resident") -> None:
        self._resident = resident

    def __call__(self, wants: str, line: Line) -> None:
        """Does what a client wants."""
        with suppress(CommandError, GoneError, KeyError, TypeError, WorkerStartError):
            if wants == "verdict" and not self._resident.is_grading:
                line.say(accepted=True)
                self._grade(line, Question.decode(line.hear(_PATIENCE)))
            elif wants == "play":
                line.say(accepted=True)
                self._play(line, PlayQuestion.decode(line.hear(_PATIENCE)))
            elif wants == "state":
                line.say(**self._resident.state())

    def _grade(self, line: Line, question: Question) -> None:
        self._resident.refresh()
        problem = catalog.load(question.problem)
        options = GradeOptions(seed=question.seed, timeout=question.timeout, say=lambda text: _said(line, text))
        with _until_hung_up(line, lambda: self._resident.supersede(problem)), invocation.as_typed_in(question.words):
            answer = Answer.of(self._resident.grade(problem, question.submission, options), question.look)
        line.say(_PATIENCE, answer=answer.encode())

    def _play(self, line: Line, question: PlayQuestion) -> None:
        from grader.play.session import Performance, job
        from grader.report.exhibits_terminal import ending, render

        self._resident.refresh()
        problem = catalog.load(question.problem)
        performance = Performance(problem, question.submission, self._resident, question.text)
        with _until_hung_up(line, performance.close), invocation.as_typed_in(question.words):
            shown = 0
            for item in performance:
                if isinstance(item, Progress):
                    line.say(**asdict(item))
                elif (shown := shown + 1) > question.seen:
                    line.say(_PATIENCE, shown=render(item, question.width, numbers=question.numbers))
            for paragraph in ending(performance.ending(), question.width):
                line.say(_PATIENCE, shown=paragraph)
            line.say(code=1 if performance.failure else 0)
        self._resident.prepare_worker(job(problem))


def _said(line: Line, text: str) -> None:
    with suppress(GoneError):
        line.say(said=text)


@contextmanager
def _until_hung_up(line: Line, end: Callable[[], Any]) -> Iterator[None]:
    """Calls `end` if the client hangs up meanwhile, as it does after Ctrl-C. It sends nothing more."""
    done, seen = threading.Event(), select.poll()
    seen.register(line.sock, select.POLLIN)

    def watch() -> None:
        while not done.is_set():
            if seen.poll(_LOOK):
                end()
                return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()  # before the socket is closed, and its number is another one's
