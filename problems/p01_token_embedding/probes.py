"""The probe of problem 01: whether a story that is too long raises. Runs in workers."""

from typing import Any

import numpy as np

from grader.problem import Case
from grader.worker.pytrees import named
from grader.worker.subject import Arrays, Reading, Subject
from grader.worker.tracing import is_tracing_error

RETURNED, RAISED_VALUE_ERROR, RAISED_ANOTHER = range(3)


def too_long(subject: Subject, case: Case, *, entry: str) -> Reading:
    """What a call on the case's story does, and the output for a story of exactly max_T tokens, which must not raise."""
    call, parameters, arrays = subject.bind(entry, case)

    def program(p: Any, x: Arrays) -> Arrays:
        fits = named(call(p, {"token_ids": x["token_ids"][: case.values["max_T"]]}), "output")
        outcome = RETURNED
        try:
            call(p, x)
        except NotImplementedError:
            raise
        except Exception as error:
            if is_tracing_error(error):
                raise
            outcome = RAISED_VALUE_ERROR if isinstance(error, ValueError) else RAISED_ANOTHER
        return {**fits, "outcome": np.int32(outcome)}

    return subject.run(program, case, parameters, arrays)


PROBES = {"too_long": too_long}
