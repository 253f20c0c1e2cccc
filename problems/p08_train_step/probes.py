"""The probe of problem 08: four steps of training on the grader's small model. Runs in workers."""

from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, described, fill_module, named
from grader.worker.subject import Reading, Subject
from grader.worker.toy_models import ToyLM


def training(subject: Subject, case: Case) -> Reading:
    """The loss of each step, the parameters and the optimizer state after the last, and counts.

    `runs_of_the_forward_pass` counts runs in Python, so it is 1 if the step is compiled once. Raises BadOutputError if
    the loss is not a scalar.
    """
    values = case.values
    model = ToyLM(values["vocab_size"], values["d_model"], values["d_ff"], rngs=nnx.Rngs(0))
    fill_module(model, case.seed)
    optimizer = _optimizer(subject, model, values["learning_rate"])
    losses, updates = [], 0
    original = nnx.Optimizer.update

    def update(*args: object, **kwargs: object) -> None:
        nonlocal updates
        updates += 1
        original(*args, **kwargs)

    for token_ids in values["token_ids"]:
        with patch.object(nnx.Optimizer, "update", update):
            loss = subject.call("train_step", model, optimizer, jnp.asarray(token_ids), values["pad_id"])
        if not isinstance(loss, jax.Array | float | np.floating) or np.shape(loss):
            raise BadOutputError(f"`train_step` returned {described(loss)}; it must return the loss, a scalar")
        losses.append(loss)
    return Reading(
        {
            "losses": jnp.stack(losses),
            **named(nnx.state(model, nnx.Param), "parameters"),
            **named(nnx.state(optimizer), "optimizer"),
            "runs_of_the_forward_pass": np.int32(model.traces.count),
            # No check compares this. It lets the diagnosis tell a step without an update from one whose update is lost.
            "updates": np.int32(updates),
        }
    )


def _optimizer(subject: Subject, model: nnx.Module, learning_rate: float) -> nnx.Optimizer:
    """The optimizer that the submission makes. Raises BadOutputError if it is not an nnx.Optimizer."""
    kind = nnx.Optimizer, "an nnx.Optimizer"
    optimizer: nnx.Optimizer = subject.call("make_optimizer", model, learning_rate, returns=kind)
    return optimizer


PROBES = {"training": training}
