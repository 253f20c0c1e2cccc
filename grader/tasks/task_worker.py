"""The workers' side of an open task: a submission's worker sends its offer, and a witness weighs one.

`grader.worker` imports this by the name in a job, in the process that becomes the worker, before it is confined.
"""

from collections.abc import Callable, Iterator
from typing import Any

from grader.course import catalog
from grader.problem import Problem
from grader.tasks.offer import Offer
from grader.wire.channel import Frame


def prepare(task: Problem) -> Callable[[Any, Frame], Iterator[Frame]]:
    """Imports the evidence of an open task. Returns the function that answers its requests. Raises CourseError."""
    module: Any = catalog.evidence_module(task.folder)
    witness = module.Witness()

    def stream(subject: Any, request: Frame) -> Iterator[Frame]:
        if subject is not None:
            yield module.offer(subject).frame()
        else:
            for found in module.weigh(Offer.decode(request), request.fields["seed"], witness):
                yield found if isinstance(found, Frame) else found.frame()

    return stream
