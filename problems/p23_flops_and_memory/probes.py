"""Probe of problem 23: five numbers. Runs in workers."""

import numpy as np

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, described
from grader.worker.subject import Reading, Subject, eager


@eager
def counting(subject: Subject, case: Case) -> Reading:
    """The number that each entry returns, as float64. Raises BadOutputError if it is not a Python or NumPy number."""
    arrays = {}
    for entry in subject.problem.entries:
        number = subject.call(entry.name, *(case.values[name] for name in entry.arguments))
        if np.shape(number) or not isinstance(number, int | float | np.number):
            raise BadOutputError(
                f"`{entry.name}` returned {described(number)}; it must return a Python or NumPy number"
            )
        arrays[entry.name] = np.float64(number)
    return Reading(arrays)


PROBES = {"counting": counting}
