"""Probe of problem 23: five numbers. Runs in workers."""

import numpy as np

from grader.leaves import BadOutput, described
from grader.problem import Case
from grader.subject import Reading, Subject


def counting(subject: Subject, case: Case) -> Reading:
    """The number that each entry returns, as float64. Raises BadOutput if it is not a Python or NumPy number."""
    arrays = {}
    for entry in subject.problem.entries:
        number = subject.call(entry.name, *(case.values[name] for name in entry.arguments))
        if np.shape(number) or not isinstance(number, int | float | np.number):
            raise BadOutput(f"`{entry.name}` returned {described(number)}; it must return a Python or NumPy number")
        arrays[entry.name] = np.float64(number)
    return Reading(arrays)


PROBES = {"counting": counting}
