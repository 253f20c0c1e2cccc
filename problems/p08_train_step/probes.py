"""The probe of problem 08: four steps of training on the grader's small model. Runs in workers."""

from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import (
    Arrays,
    BadOutputError,
    Reading,
    Subject,
    ToyLM,
    described,
    fill_state,
    given,
    named,
    to_fill,
)
from grader.problem import Case


def training(subject: Subject, case: Case) -> Reading:
    """The loss of each step, and the parameters and the optimizer state after the last.

    The four steps are one program. It holds a step once if the step is compiled, and four times if it is not. Raises
    BadOutputError if the loss is not a scalar.
    """
    values = case.values
    sizes = (values["vocab_size"], values["d_model"], values["d_ff"])
    model = nnx.eval_shape(lambda: ToyLM(*sizes, rngs=nnx.Rngs(0)))
    _graphdef, parameters, *_rest = nnx.split(model, nnx.Param, ...)

    def program(parameters: Any, token_ids: Any) -> Arrays:
        model = ToyLM(*sizes, rngs=nnx.Rngs(0))
        nnx.update(model, parameters)
        optimizer = _optimizer(subject, model, values["learning_rate"])
        losses, updates = [], 0
        original = nnx.Optimizer.update

        def update(*args: Any, **kwargs: Any) -> None:
            nonlocal updates
            updates += 1
            original(*args, **kwargs)

        for batch in token_ids:
            with patch.object(nnx.Optimizer, "update", update):
                loss = subject.call("train_step", model, optimizer, batch, values["pad_id"])
            if not isinstance(loss, jax.Array | float | np.floating) or np.shape(loss):
                raise BadOutputError(f"`train_step` returned {described(loss)}; it must return the loss, a scalar")
            losses.append(loss)
        return {
            "losses": jnp.stack(losses),
            **named(nnx.state(model, nnx.Param), "parameters"),
            **named(nnx.state(optimizer), "optimizer"),
            # No check compares this. It lets the diagnosis tell a step without an update from one whose update is lost.
            "unchecked.updates": np.int32(updates),
            # JAX leaves out what is not used, so without this the last step would be another program than the others.
            **named(nnx.state(model, nnx.Not(nnx.Param)), "unchecked"),
        }

    return subject.run(program, case, fill_state(parameters, to_fill), given(case, "token_ids"))


def _optimizer(subject: Subject, model: nnx.Module, learning_rate: Any) -> nnx.Optimizer[Any]:
    """The optimizer that the submission makes. Raises BadOutputError if it is not an nnx.Optimizer."""
    kind = nnx.Optimizer, "an nnx.Optimizer"
    optimizer: nnx.Optimizer[Any] = subject.call("make_optimizer", model, learning_rate, returns=kind)
    return optimizer


PROBES = {"training": training}
