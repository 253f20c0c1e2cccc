"""The probe of problem 11: a clipped tree and the reported norm, compiled. Runs in workers."""

from typing import Any

import jax

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, named
from grader.worker.subject import Reading, Subject, run


def clipping(subject: Subject, case: Case) -> Reading:
    """The clipped leaves by name, and the reported norm."""
    v = case.values
    gradients = {"embed": v["embedding"], "blocks": [{"kernel": v["kernel"], "bias": v["bias"]}], "scale": v["scale"]}
    max_norm = v["max_norm"]

    def program(gradients: Any) -> Any:
        result = subject.call("clip_by_global_norm", gradients, max_norm)
        if not (isinstance(result, tuple | list) and len(result) == 2):
            raise BadOutputError("`clip_by_global_norm` must return the pair (clipped, norm)")
        clipped, norm = result
        return {**named(norm, "norm"), **named(clipped, "clipped")}

    arrays, notes = run(subject.once("program", case, lambda: jax.jit(program)), gradients)
    return Reading(arrays, notes)


PROBES = {"clipping": clipping}
