"""What problem 23 looks at: five numbers. Runs in workers."""

import numpy as np

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, described
from grader.worker.subject import Reading, Subject


def counting(subject: Subject, case: Case) -> Reading:
    """What each entry returns, exactly."""
    arrays = {}
    for entry in subject.problem.entries:
        found = subject.call(entry.name, *(case.values[name] for name in entry.arguments))
        if np.shape(found) or not isinstance(found, int | float | np.number):
            raise BadOutputError(f"`{entry.name}` returned {described(found)}; it must return a number")
        arrays[entry.name] = np.float64(found)
    return Reading(arrays)


PROBES = {"counting": counting}
