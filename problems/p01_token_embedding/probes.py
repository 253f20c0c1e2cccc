"""The probe of problem 01: whether a story that is too long raises. Runs in workers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from grader.problem import Case
from grader.worker.pytrees import named
from grader.worker.subject import Arrays, Reading, Subject
from grader.worker.tracing import is_tracing_error

RETURNED, RAISED_VALUE_ERROR, RAISED_ANOTHER = range(3)


def too_long(subject: Subject, case: Case, *, entry: str) -> Reading:
    """What calls on the case's story do, and the outputs for a story of exactly max_T tokens, which must not raise.

    `calls` of the case says in which order the two are called: 1 for the story that is too long.
    """
    call, parameters, arrays = subject.bind(entry, case)
    T = case.values["max_T"]

    def program(p: Any, x: Arrays) -> Arrays:
        results: Arrays = {}
        for number, too_long in enumerate(str(case.values["calls"])):
            if too_long == "1":
                results[f"outcome.{number}"] = np.int32(_outcome(lambda: call(p, x)))
            else:
                results |= named(call(p, {"token_ids": x["token_ids"][:T]}), f"output.{number}")
        return results

    return subject.run(program, case, parameters, arrays)


def _outcome(call: Callable[[], object]) -> int:
    try:
        call()
    except NotImplementedError:
        raise
    except Exception as error:
        if is_tracing_error(error):
            raise
        return RAISED_VALUE_ERROR if isinstance(error, ValueError) else RAISED_ANOTHER
    return RETURNED


PROBES = {"too_long": too_long}
