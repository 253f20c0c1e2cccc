"""Probes of problem 23: five numbers of training, and two of decoding. Run in workers."""

from collections.abc import Iterable

import numpy as np

from grader.authoring import BadOutputError, Reading, Subject, described, eager
from grader.problem import Case
from problems.p23_flops_and_memory.problem import COUNTING, DECODING


@eager
def counting(subject: Subject, case: Case) -> Reading:
    """The numbers of training."""
    return numbers(subject, case, COUNTING)


@eager
def decoding(subject: Subject, case: Case) -> Reading:
    """The numbers of decoding."""
    return numbers(subject, case, DECODING)


def numbers(subject: Subject, case: Case, names: Iterable[str]) -> Reading:
    """The number that each entry returns, as float64. Raises BadOutputError if it is not a Python or NumPy number."""
    arrays = {}
    for entry in map(subject.problem.entry, names):
        number = subject.call(entry.name, *(case.values[name] for name in entry.arguments))
        if np.shape(number) or not isinstance(number, int | float | np.number):
            raise BadOutputError(
                f"`{entry.name}` returned {described(number)}; it must return a Python or NumPy number"
            )
        arrays[entry.name] = np.float64(number)
    return Reading(arrays)


PROBES = {"counting": counting, "decoding": decoding}
