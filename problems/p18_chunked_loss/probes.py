"""Probe of problem 18: the memory that loss and gradient take. Runs in workers."""

from typing import Any

import jax
import numpy as np

from grader.problem import Case
from grader.worker.compiled import temporary_bytes
from grader.worker.subject import Reading, Subject


def memory(subject: Subject, case: Case) -> Reading:
    """The temporary memory of the compiled loss and its gradients, in bytes."""
    values = case.values

    def loss(x: Any, embedding: Any, token_ids: Any) -> Any:
        return subject.call("chunked_loss", x, embedding, token_ids, values["pad_id"], values["chunk"])

    program = jax.value_and_grad(loss, argnums=(0, 1))
    arrays = (values["x"], values["embedding"], values["token_ids"])
    size = subject.once("memory", case, lambda: temporary_bytes(program, *arrays))
    return Reading({"temporary_bytes": np.int64(size)})


PROBES = {"memory": memory}
