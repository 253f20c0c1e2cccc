"""Probes of problem 12: loss, gradients and norm of a batch in microbatches, and the memory used. Runs in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from grader.problem import Case
from grader.worker.compiled import temporary_bytes
from grader.worker.pytrees import BadOutputError, filled, named
from grader.worker.subject import Reading, Subject, run


def accumulating(subject: Subject, case: Case) -> Reading:
    """The mean loss, the clipped gradients by name, and their norm before clipping."""
    parameters, token_ids = _inputs(case)
    program = subject.once("program", case, lambda: jax.jit(_program(subject, case)))
    arrays, notes = run(program, parameters, token_ids)
    return Reading(arrays, notes)


def memory(subject: Subject, case: Case) -> Reading:
    """The temporary memory of the compiled program, in bytes."""
    size = subject.once("memory", case, lambda: temporary_bytes(_program(subject, case), *_inputs(case)))
    return Reading({"temporary_bytes": np.int64(size)})


def _inputs(case: Case) -> tuple[Any, Any]:
    V, D, F = (int(case.values[key]) for key in ("vocab_size", "d_model", "d_ff"))
    shapes = {"embed": (V, D), "ff1": (D, F), "ff2": (F, F), "bias": (F,), "head": (F, V)}
    return {key: filled(key, shape, np.float32, case.seed) for key, shape in shapes.items()}, case.values["token_ids"]


def _program(subject: Subject, case: Case) -> Any:
    values = case.values
    pad_id = int(values["vocab_size"]) - 1

    def loss_sum(parameters: Any, token_ids: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = jax.nn.relu(parameters["embed"][token_ids] @ parameters["ff1"])
        x = jax.nn.relu(x @ parameters["ff2"] + parameters["bias"])
        losses = optax.softmax_cross_entropy_with_integer_labels((x @ parameters["head"])[:, :-1], token_ids[:, 1:])
        real = token_ids[:, 1:] != pad_id
        return jnp.sum(losses * real), jnp.sum(real)

    def program(parameters: Any, token_ids: Any) -> Any:
        sizes = (values["microbatches"], values["max_norm"])
        result = subject.call("accumulated_gradients", loss_sum, parameters, token_ids, *sizes)
        if not (isinstance(result, tuple | list) and len(result) == 3):
            raise BadOutputError("`accumulated_gradients` must return the triple (loss, gradients, norm)")
        loss, gradients, norm = result
        return {**named(loss, "loss"), **named(gradients, "gradients"), **named(norm, "norm")}

    return program


PROBES = {"accumulating": accumulating, "memory": memory}
