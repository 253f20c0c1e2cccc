"""What problem 11 looks at: a clipped tree and its norm, compiled. Runs in workers."""

from typing import Any

import jax

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, named
from grader.worker.subject import Reading, Subject, run


def clipping(subject: Subject, case: Case) -> Reading:
    """The clipped leaves by name, and the norm that was reported."""
    v = case.values
    gradients = {"embed": v["embedding"], "blocks": [{"kernel": v["kernel"], "bias": v["bias"]}], "scale": v["scale"]}
    max_norm = v["max_norm"]

    def program(gradients: Any) -> Any:
        found = subject.call("clip_by_global_norm", gradients, max_norm)
        if not (isinstance(found, tuple | list) and len(found) == 2):
            raise BadOutputError("`clip_by_global_norm` must return the pair (clipped, norm)")
        return {**named(found[1], "norm"), **named(found[0], "clipped")}

    arrays, notes = run(subject.once("program", case, lambda: jax.jit(program)), gradients)
    return Reading(arrays, notes)


PROBES = {"clipping": clipping}
