"""What problem 01 looks at besides numbers. Runs in workers."""

import numpy as np

from grader.problem import Case
from grader.worker.subject import Reading, Subject, run


def refuses(subject: Subject, case: Case, *, entry: str) -> Reading:
    """1 if calling the module on the case raises, 0 if it returns something; a story that just fits must come through."""
    call, parameters, arrays = subject.bind(entry, case)
    run(call, parameters, {"token_ids": arrays["token_ids"][: case.values["max_T"]]})  # refusing everything is no check
    try:
        run(call, parameters, arrays)
    except NotImplementedError:
        raise
    except Exception:
        return Reading({"raises": np.int32(1)})
    return Reading({"raises": np.int32(0)})


PROBES = {"refuses": refuses}
