"""The probe of problem 18: the loss alone, and the loss with its gradients, in one program. Runs in workers."""

from typing import Any

import jax

from grader.problem import Case
from grader.worker.pytrees import named
from grader.worker.subject import Arrays, Reading, Subject
from grader.worker.tracing import given


def losses(subject: Subject, case: Case) -> Reading:
    """The loss, computed without a gradient and with one, and its gradients by argument."""
    pad_id, chunk = case.values["pad_id"], case.values["chunk"]

    def program(at: dict[str, Any], token_ids: Any) -> Arrays:
        def loss(at: dict[str, Any]) -> Any:
            return subject.call("chunked_loss", at["x"], at["embedding"], token_ids, pad_id, chunk)

        both, slopes = jax.value_and_grad(loss)(at)
        return named(loss(at), "alone") | named(both, "output") | named(slopes, "gradient")

    at = {key: given(case, key) for key in ("x", "embedding")}
    return subject.run(program, case, at, given(case, "token_ids"))


PROBES = {"losses": losses}
