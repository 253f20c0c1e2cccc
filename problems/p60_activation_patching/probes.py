"""The probe of problem 60: a grid of scores of a small GPT. Runs in workers."""

from typing import Any

from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import named
from grader.worker.subject import Arrays, Reading, Subject
from grader.worker.toy_models import ToyGPT
from grader.worker.tracing import given


def patching(subject: Subject, case: Case, *, entry: str) -> Reading:
    """The scores that an entry returns."""
    graphdef, state = ToyGPT.abstract(case)

    def program(state: Any, *arguments: Any) -> Arrays:
        return dict(named(subject.call(entry, nnx.merge(graphdef, state), *arguments), "scores"))

    names = ("clean_ids", "corrupted_ids", "answer", "foil")
    return subject.run(program, case, state, *(given(case, name) for name in names))


PROBES = {"patching": patching}
