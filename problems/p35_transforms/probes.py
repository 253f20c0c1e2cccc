"""Probes of problem 35: a model that changes its variables, under jit, grad and vmap. Run in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.authoring import Arrays, BadOutputError, Reading, Subject, described, fill_state, given, named, to_fill
from grader.problem import Case


class Net(nnx.Module):
    """A small network that counts its calls and keeps a running mean of its inputs."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        self.mean, self.calls = nnx.BatchStat(jnp.zeros(d_model)), nnx.Variable(jnp.zeros(()))
        self.w1, self.w2 = nnx.Param(jnp.zeros((d_model, d_ff))), nnx.Param(jnp.zeros((d_ff, 1)))

    def __call__(self, x: jax.Array) -> jax.Array:
        """A batch (B, D) to scores (B,)."""
        self.calls[...] += 1
        self.mean[...] = 0.5 * self.mean[...] + 0.5 * x.mean(0)
        scores: jax.Array = (jnp.tanh((x - self.mean[...]) @ self.w1[...]) @ self.w2[...])[:, 0]
        return scores


def training(subject: Subject, case: Case) -> Reading:
    """The loss of each of four steps, and the variables of the model and the optimizer after the last."""

    def program(state: Any, x: jax.Array, y: jax.Array) -> Arrays:
        model = _net(case, state)
        optimizer = nnx.Optimizer(model, optax.adam(case.values["learning_rate"]), wrt=nnx.Param)
        losses = []
        for x_BD, y_B in zip(x, y, strict=True):
            loss = subject.call("train_step", model, optimizer, x_BD, y_B)
            if not isinstance(loss, jax.Array | float | np.floating) or np.shape(loss):
                raise BadOutputError(f"`train_step` returned {described(loss)}; it must return the loss, a scalar")
            losses.append(loss)
        return {
            "losses": jnp.stack(losses),
            **named(nnx.state(model), "variables.model"),
            **named(nnx.state(optimizer), "variables.optimizer"),
        }

    return subject.run(program, case, _state(case), given(case, "x"), given(case, "y"))


def differentiating(subject: Subject, case: Case) -> Reading:
    """The gradient of the input, and the model's variables after it."""

    def program(state: Any, x: jax.Array) -> Arrays:
        model = _net(case, state)
        gradient = subject.call("input_gradient", model, x[0])
        return {**named(gradient, "gradient"), **named(nnx.state(model), "variables")}

    return subject.run(program, case, _state(case), given(case, "x"))


def mapping(subject: Subject, case: Case) -> Reading:
    """The outputs of several models, whose variables are stacked, and these variables afterwards."""

    def program(state: Any, x: jax.Array) -> Arrays:
        models = _net(case, state)
        outputs = subject.call("member_outputs", models, x[0])
        return {**named(outputs, "output"), **named(nnx.state(models), "variables")}

    return subject.run(program, case, _state(case, int(case.values["num_models"])), given(case, "x"))


def _sizes(case: Case) -> tuple[int, int]:
    return int(case.values["d_model"]), int(case.values["d_ff"])


def _state(case: Case, *leading: int) -> Any:
    """The state of a model, to be filled. All arrays have the leading axes."""
    state = nnx.state(nnx.eval_shape(lambda: Net(*_sizes(case))))
    return fill_state(state, lambda path, shape, dtype: to_fill(path, (*leading, *shape), dtype))


def _net(case: Case, state: Any) -> Net:
    model = Net(*_sizes(case))
    nnx.update(model, state)
    return model


PROBES = {"training": training, "differentiating": differentiating, "mapping": mapping}
