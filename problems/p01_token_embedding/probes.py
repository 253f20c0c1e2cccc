"""The probe of problem 01: stories that fill the table, and stories that are too long. Runs in workers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from grader.authoring import Arrays, Reading, Subject, is_tracing_error, named
from grader.problem import Case

RETURNED, RAISED_ANOTHER = 0, 1
RAISED = {ValueError: 2, AssertionError: 3, IndexError: 4, TypeError: 5}


def lengths(subject: Subject, case: Case, *, entry: str) -> Reading:
    """What a call on the first max_T tokens of the case's story does (`fits`), and one on the whole of it
    (`raises`)."""
    call, parameters, arrays = subject.bind(entry, case)
    T, D = case.values["max_T"], case.values["d_model"]

    def program(p: Any, x: Arrays) -> Arrays:
        fits, output = _outcome(lambda: call(p, {"token_ids": x["token_ids"][:T]}))
        raises, _ = _outcome(lambda: call(p, x))
        outputs = named(np.zeros((T, D), np.float32) if fits else output, "fits.output")
        return {"fits.outcome": np.int32(fits), **outputs, "raises": np.int32(raises)}

    return subject.run(program, case, parameters, arrays)


def _outcome(call: Callable[[], Any]) -> tuple[int, Any]:
    """What a call did, and what it returned."""
    try:
        return RETURNED, call()
    except NotImplementedError:
        raise
    except Exception as error:
        if is_tracing_error(error):
            raise
        return next((code for kind, code in RAISED.items() if isinstance(error, kind)), RAISED_ANOTHER), None


PROBES = {"lengths": lengths}
