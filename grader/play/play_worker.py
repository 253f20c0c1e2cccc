"""The worker's side of a play: runs the `play` of a problem's `play.py` on a submission, and sends each exhibit as it
is ready.

`grader.worker` imports this by the name in a job, in the process that becomes the worker, before it is confined.
"""

from collections.abc import Callable, Iterator
from typing import Any

from grader.course import catalog
from grader.exhibits import encode
from grader.problem import Case, Problem
from grader.wire.channel import Frame


class Names:
    """The functions and classes of a submission as attributes. A name that is missing is reported as in a verdict."""

    def __init__(self, subject: Any) -> None:
        self._subject = subject

    def __getattr__(self, name: str) -> Any:
        return self._subject.attribute(name)

    def construct(self, name: str, **values: Any) -> Callable[[], Any]:
        """Returns a function that constructs the module entry `name` as the page says. `values` are those of a case, by
        name."""
        construct: Callable[[], Any] = self._subject.constructor(name, Case(values))
        return construct


def prepare(problem: Problem) -> Callable[[Any, Frame], Iterator[Frame]]:
    """Imports the play of a problem. Returns the function that answers a request for its exhibits. Raises
    CourseError."""
    module: Any = catalog.play_module(problem.folder)

    def stream(subject: Any, request: Frame) -> Iterator[Frame]:
        text = request.fields["text"]
        arguments = [] if text is None else [text]
        for exhibit in module.play(Names(subject), *arguments):
            yield Frame("exhibit", encode(exhibit))

    return stream
