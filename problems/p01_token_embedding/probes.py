"""The probe of problem 01: whether a story that is too long raises. Runs in workers."""

import numpy as np

from grader.problem import Case
from grader.worker.subject import Reading, Subject, run


def too_long(subject: Subject, case: Case, *, entry: str) -> Reading:
    """1 if calling the module on the case's story raises, 0 if it returns.

    A story of exactly max_T tokens is run first and must not raise: a module that rejects every story earns nothing.
    """
    call, parameters, arrays = subject.bind(entry, case)
    run(call, parameters, {"token_ids": arrays["token_ids"][: case.values["max_T"]]})
    try:
        run(call, parameters, arrays)
    except NotImplementedError:
        raise
    except Exception:
        return Reading({"outcome": np.int32(1)})
    return Reading({"outcome": np.int32(0)})


PROBES = {"too_long": too_long}
