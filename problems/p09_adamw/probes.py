"""Probes of problem 09: the updates of an optimizer, called directly, compiled, and inside nnx.Optimizer. Runs in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, filled, named
from grader.worker.subject import Reading, Subject

HYPER = ("learning_rate", "b1", "b2", "epsilon", "weight_decay")
TREE = ("kernel", "bias", "temperature")


def updates(subject: Subject, case: Case) -> Reading:
    """The updates of five steps, called directly and compiled. Each of the two applies its own updates to the parameters."""
    tx, compiled = subject.once("updates", case, lambda: _compiled(_transformation(subject, case)))
    steps = [{key: jnp.asarray(case.values[key][i]) for key in TREE} for i in range(len(case.values["bias"]))]
    arrays: dict[str, Any] = {}
    for way, update in (("update", tx.update), ("compiled", compiled)):
        parameters = _parameters(case)
        state = tx.init(parameters)
        for i, gradients in enumerate(steps):
            result = update(gradients, state, parameters)
            if not (isinstance(result, tuple) and len(result) == 2):
                raise BadOutputError("`update` must return the pair (updates, new state)")
            moves, state = result
            arrays |= named(moves, f"{way}.{i}")
            parameters = optax.apply_updates(parameters, moves)
    return Reading(arrays)


def optimizing(subject: Subject, case: Case) -> Reading:
    """The parameters of a module after three compiled steps of nnx.Optimizer, and the number of traces of the step."""
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    model.kernel[...] = jnp.asarray(filled("kernel", (3, 2), np.float32, case.seed))
    optimizer = nnx.Optimizer(model, _transformation(subject, case), wrt=nnx.Param)
    x, traces = jnp.asarray(case.values["bias"][:3, :2]), 0

    @nnx.jit
    def step(model: nnx.Linear, optimizer: nnx.Optimizer, x: jax.Array) -> None:
        nonlocal traces
        traces += 1
        optimizer.update(model, nnx.grad(lambda model: jnp.sum(model(jnp.ones(3)) * x))(model))

    for row in x:
        step(model, optimizer, row)
    return Reading({**named(nnx.state(model), "parameters"), "traces": np.int32(traces)})


def _compiled(tx: optax.GradientTransformation) -> tuple[optax.GradientTransformation, Any]:
    return tx, jax.jit(tx.update)


def _transformation(subject: Subject, case: Case) -> optax.GradientTransformation:
    kind = optax.GradientTransformation, "an optax.GradientTransformation"
    tx: optax.GradientTransformation = subject.call("adamw", *(case.values[name] for name in HYPER), returns=kind)
    return tx


def _parameters(case: Case) -> dict[str, jax.Array]:
    shapes = {key: case.values[key].shape[1:] for key in TREE}
    return {key: jnp.asarray(filled(key, shape, np.float32, case.seed)) for key, shape in shapes.items()}


PROBES = {"updates": updates, "optimizing": optimizing}
