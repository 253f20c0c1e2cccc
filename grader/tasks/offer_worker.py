"""The worker that traces a submission to an open task. It has no data, and no code that makes data.

`grader.worker` imports this by the name in a job, in the process that becomes the worker, before it is confined.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

from grader.course import catalog
from grader.task import Task
from grader.tasks.offer import file_of
from grader.wire.channel import Frame

MAKES_DATA = ("harness", "problems")  # packages that a process may have imported for another job


def prepare(task: Task) -> Callable[[Any, Frame], Iterator[Frame]]:
    """Imports `offer.py` of an open task. Returns the function that answers its request. Raises CourseError."""
    for name in [name for name in sys.modules if name.partition(".")[0] in MAKES_DATA]:
        del sys.modules[name]
    module: Any = catalog.module_of_task(task.folder, "offer")

    def stream(subject: Any, request: Frame) -> Iterator[Frame]:
        files = [file_of(request)] if task.saves else []
        yield module.offer(subject, *files).frame()

    return stream
