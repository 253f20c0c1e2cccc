"""The probe of problem 01: stories that fill the table, and stories that are too long. Runs in workers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from grader.authoring import Arrays, Reading, Subject, is_tracing_error, named
from grader.problem import Case

RETURNED, RAISED_ANOTHER = 0, 1
RAISED = {ValueError: 2, AssertionError: 3, IndexError: 4, TypeError: 5}


def lengths(subject: Subject, case: Case, *, entry: str) -> Reading:
    """What calls on the case's story do, which is too long (`raises`), and calls on its first max_T tokens (`fits`).

    `calls` of the case says in which order the two are called: 1 for the story that is too long.
    """
    call, parameters, arrays = subject.bind(entry, case)
    T, D = case.values["max_T"], case.values["d_model"]

    def program(p: Any, x: Arrays) -> Arrays:
        results: Arrays = {}
        for number, too_long in enumerate(str(case.values["calls"])):
            if too_long == "1":
                outcome, _ = _outcome(lambda: call(p, x))
                results[f"raises.{number}"] = np.int32(outcome)
            else:
                outcome, output = _outcome(lambda: call(p, {"token_ids": x["token_ids"][:T]}))
                results[f"fits.{number}.outcome"] = np.int32(outcome)
                results |= named(np.zeros((T, D), np.float32) if outcome else output, f"fits.{number}.output")
        return results

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
