"""Probes of problem 19: logits and loss, and the gradient of the loss. Run in workers."""

from typing import Any

import jax
from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import named
from grader.worker.subject import Arrays, Reading, Subject
from grader.worker.tracing import given


def precision(subject: Subject, case: Case) -> Reading:
    """Logits and loss. The dtypes of this program's operations are measured."""
    graphdef, parameters, rest = subject.build("MixedLM", case)

    def program(parameters: Any, token_ids: Any) -> Arrays:
        model = nnx.merge(graphdef, parameters, rest)
        return {
            **named(model(token_ids), "logits"),
            **named(subject.call("mixed_loss", model, token_ids, case.values["pad_id"]), "loss"),
        }

    return subject.run(program, case, parameters, given(case, "token_ids"))


def slope(subject: Subject, case: Case) -> Reading:
    """The gradient of the loss."""
    graphdef, parameters, rest = subject.build("MixedLM", case)

    def loss(parameters: Any, token_ids: Any) -> Any:
        return subject.call("mixed_loss", nnx.merge(graphdef, parameters, rest), token_ids, case.values["pad_id"])

    def program(parameters: Any, token_ids: Any) -> Arrays:
        return named(jax.grad(loss)(parameters, token_ids), "gradient")

    return subject.run(program, case, parameters, given(case, "token_ids"))


PROBES = {"precision": precision, "slope": slope}
