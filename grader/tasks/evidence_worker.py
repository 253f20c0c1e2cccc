"""A worker with the evidence of an open task: it weighs an offer, or lets a submission learn from public data
or make a file.

`grader.worker` imports this by the name in a job, in the process that becomes the worker, before it is confined.
"""

from collections.abc import Callable, Iterator
from typing import Any

from grader.course import catalog
from grader.problem import Problem
from grader.tasks.offer import Offer, Weighed, saved
from grader.wire.channel import Frame


def prepare(task: Problem) -> Callable[[Any, Frame], Iterator[Frame]]:
    """Imports the evidence of an open task. Returns the function that answers its requests. Raises CourseError."""
    module: Any = catalog.module_of_task(task.folder, "evidence")
    witness = module.Witness()

    def stream(subject: Any, request: Frame) -> Iterator[Frame]:
        if subject is None:
            for found in module.weigh(Offer.decode(request), request.fields["seed"], witness):
                if isinstance(found, Weighed):
                    yield found.frame()
                else:
                    yield Frame("progress", dict(zip(("step", "steps", "loss"), found, strict=True)))
        elif "settings" in request.fields:
            yield Frame("learned", {"learned": module.learn(subject, request.fields["settings"])})
        else:
            yield saved(module.save(subject))

    return stream
