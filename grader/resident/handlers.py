"""The request handlers of a resident judge: it grades and plays what other processes send, and reports its state."""

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
from grader.judge.judge import Listener
from grader.resident.connection import Connection, GoneError
from grader.resident.messages import GradeRequest, GradeResponse, PlayRequest

if TYPE_CHECKING:
    from grader.resident.resident import Resident

_PATIENCE = 5.0  # seconds for a client to send its files, and to read its answer
_LOOK = 200  # milliseconds between two looks whether a client is still there


class Handlers:
    """Handles the requests of the clients of a resident judge. It does not answer a request that it cannot fulfill: the
    client then does the work itself."""

    def __init__(self, resident: "Resident") -> None:
        self._resident = resident

    def __call__(self, wants: str, connection: Connection) -> None:
        """Handles a request. `wants` is its kind: `verdict`, `play`, `prepare` or `state`."""
        with suppress(CommandError, GoneError, KeyError, TypeError, WorkerStartError):
            if wants == "verdict" and not self._resident.is_grading:
                connection.send(accepted=True)
                self._grade(connection, GradeRequest.decode(connection.receive(_PATIENCE)))
            elif wants == "play":
                connection.send(accepted=True)
                self._play(connection, PlayRequest.decode(connection.receive(_PATIENCE)))
            elif wants == "prepare":
                self._resident.prepare(catalog.find(str(connection.receive(_PATIENCE)["problem"])))
            elif wants == "state":
                connection.send(**self._resident.state())

    def _grade(self, connection: Connection, request: GradeRequest) -> None:
        self._resident.refresh()
        problem = catalog.load(request.problem)
        listener = Listener(lambda text: _said(connection, text))
        with (
            _until_hung_up(connection, lambda: self._resident.supersede(request.submission)),
            invocation.as_typed_in(request.words),
        ):
            report = self._resident.grade(problem, request.submission, request.options, listener)
            response = GradeResponse.of(report, request.display)
        connection.send(_PATIENCE, response=response.encode())

    def _play(self, connection: Connection, request: PlayRequest) -> None:
        from grader.play.play_session import Performance, job
        from grader.report.exhibits_terminal import ending, render

        self._resident.refresh()
        problem = catalog.load(request.problem)
        performance = Performance(problem, request.submission, self._resident, request.text, compare=request.compare)
        with _until_hung_up(connection, performance.close), invocation.as_typed_in(request.words):
            shown = 0
            for item in performance:
                if isinstance(item, Progress):
                    connection.send(**asdict(item))
                elif (shown := shown + 1) > request.seen:
                    connection.send(_PATIENCE, shown=render(item, request.width, numbers=request.numbers))
            for paragraph in ending(performance.ending(), request.width):
                connection.send(_PATIENCE, shown=paragraph)
            connection.send(code=1 if performance.failure else 0)
        self._resident.prepare_worker(job(problem))


def _said(connection: Connection, text: str) -> None:
    with suppress(GoneError):
        connection.send(said=text)


@contextmanager
def _until_hung_up(connection: Connection, end: Callable[[], Any]) -> Iterator[None]:
    """Calls `end` if the client hangs up meanwhile, as it does after Ctrl-C. It sends nothing more."""
    done, seen = threading.Event(), select.poll()
    seen.register(connection.sock, select.POLLIN)

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
