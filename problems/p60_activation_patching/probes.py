"""The probe of problem 60: a grid of scores of a small GPT. Runs in workers."""

from typing import Any

from flax import nnx

from grader.authoring import Arrays, Reading, Subject, ToyGPT, given, named
from grader.problem import Case


def patching(subject: Subject, case: Case, *, entry: str) -> Reading:
    """The scores that an entry returns."""
    graphdef, state = ToyGPT.abstract(case)

    def program(state: Any, *arguments: Any) -> Arrays:
        return dict(named(subject.call(entry, nnx.merge(graphdef, state), *arguments), "scores"))

    names = ("clean_ids", "corrupted_ids", "answer", "foil")
    return subject.run(program, case, state, *(given(case, name) for name in names))


PROBES = {"patching": patching}
