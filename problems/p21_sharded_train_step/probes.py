"""Probe of problem 21: a step on a 4x2 mesh of eight CPU devices. Runs in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import (
    Arrays,
    BadOutputError,
    Reading,
    Subject,
    as_inputs,
    given,
    like,
    mesh_of,
    mid_training,
    model_factory,
    moved,
    put,
    stablehlo,
    state_numbers,
    step,
)
from grader.problem import Case


class Layers(nnx.Module):
    """Four layers, stacked as in problem 17."""

    def __init__(self) -> None:
        self.stack = nnx.Linear(12, 8, rngs=nnx.Rngs(0))
        self.stack.kernel = nnx.Param(jnp.zeros((4, 12, 8)))
        self.stack.bias = nnx.Param(jnp.zeros((4, 8)))


def placing(subject: Subject, case: Case) -> Reading:
    """The state and the batch that the submission moves, in a program of its own."""
    mesh = mesh_of(4, 2)
    model, optimizer = _toy(case)
    layers = Layers()
    states = (
        as_inputs(model, "model", None),
        as_inputs(optimizer, "optimizer", None, "positive"),
        as_inputs(layers, "model", None),
    )

    def program(states: Any, token_ids: Any) -> Arrays:
        arrays = moved(subject, "shard_state", model, states[0], mesh, "model")
        arrays |= moved(subject, "shard_state", optimizer, states[1], mesh, "optimizer")
        arrays |= moved(subject, "shard_state", layers, states[2], mesh, "model")
        with stablehlo.placements_are_traced():
            batch = subject.call(
                "shard_batch", token_ids, mesh, returns=(jax.Array, "a jax.Array that holds the batch")
            )
        return {**arrays, "token_ids": batch}

    return subject.run(program, case, states, given(case, "token_ids"))


def sharded_training(subject: Subject, case: Case) -> Reading:
    """The results of one step on state and batch that the submission placed.

    It places arrays with other numbers than the case's: tracing would drop `jax.device_put`. The program that the step
    is traced to takes inputs that are placed in the same way.
    """
    mesh = mesh_of(4, 2)
    model, optimizer = _toy(case)
    for node in (model, optimizer):
        put(subject, "shard_state", node, mesh)
    token_ids = given(case, "token_ids")
    other = jnp.arange(token_ids.size, dtype=token_ids.dtype).reshape(token_ids.shape)
    batch = subject.call("shard_batch", other, mesh, returns=(jax.Array, "a jax.Array that holds the batch"))
    if not np.array_equal(batch, other):
        raise BadOutputError("`shard_batch` changed the batch; it must only move it")
    return step(subject, case, "sharded_train_step", model, optimizer, like(token_ids, batch, mesh), mesh)


def _toy(case: Case) -> Any:
    values = case.values
    make = model_factory(values["vocab_size"], values["d_model"], values["d_ff"])
    return mid_training(make, state_numbers(0, 1 << 18))


PROBES = {"placing": placing, "sharded_training": sharded_training}
