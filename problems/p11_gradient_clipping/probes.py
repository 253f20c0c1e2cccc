"""The probe of problem 11: a clipped tree and the reported norm, compiled. Runs in workers."""

from typing import Any

from grader.problem import Case
from grader.worker.pytrees import named
from grader.worker.subject import Arrays, Reading, Subject
from grader.worker.tracing import given


def clipping(subject: Subject, case: Case) -> Reading:
    """The clipped leaves by name, and the reported norm."""
    embedding, kernel, bias, scale = (given(case, key) for key in ("embedding", "kernel", "bias", "scale"))

    def program(gradients: Any) -> Arrays:
        clipped, norm = subject.call("clip_by_global_norm", gradients, case.values["max_norm"])
        return {**named(norm, "norm"), **named(clipped, "clipped")}

    return subject.run(
        program, case, {"embed": embedding, "blocks": [{"kernel": kernel, "bias": bias}], "scale": scale}
    )


PROBES = {"clipping": clipping}
