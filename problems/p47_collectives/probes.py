"""Probes of problem 47: two MLPs and a gradient on eight CPU devices. Run in workers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from grader.authoring import (
    Arrays,
    Given,
    Reading,
    Subject,
    called_on_mesh,
    cotangent,
    given,
    mesh_of,
    named,
    placed,
    sum_of_losses,
    to_fill,
)
from grader.problem import Case

P = PartitionSpec
PLACES = {"w1": P(None, "model"), "b1": P("model"), "w2": P("model", None), "b2": P()}
ROWS = {"tensor_parallel_mlp": P(), "sequence_parallel_mlp": P("model", None)}  # the placement of x


def forward(subject: Subject, case: Case, *, entry: str) -> Reading:
    """The output of an MLP whose arrays are placed as the page says."""
    call, arrays = _bound(subject, case, entry)
    return subject.run(lambda arrays: named(call(arrays), "output"), case, arrays)


def slopes(subject: Subject, case: Case, *, entry: str) -> Reading:
    """The gradient of a random projection of the output with respect to every array."""
    call, arrays = _bound(subject, case, entry)

    def projected(arrays: Arrays) -> Any:
        output = call(arrays)
        return jnp.sum(cotangent("output", output) * output)

    return subject.run(lambda arrays: named(jax.grad(projected)(arrays), "gradient"), case, arrays)


def _bound(subject: Subject, case: Case, entry: str) -> tuple[Callable[[Arrays], Any], dict[str, Given]]:
    mesh, places = mesh_of(8, axes=("model",)), {"x": ROWS[entry], **PLACES}
    arrays = {name: placed(given(case, name), mesh, spec) for name, spec in places.items()}

    def call(arrays: Arrays) -> Any:
        return called_on_mesh(
            subject, entry, *(arrays[name] for name in places), mesh, returns=(jax.Array, "one jax.Array")
        )

    return call, arrays


def training(subject: Subject, case: Case) -> Reading:
    """The mean loss and the gradients by name. The rows of the batch are placed over the devices."""
    mesh = mesh_of(8)
    V, D, F = (int(case.values[key]) for key in ("vocab_size", "d_model", "d_ff"))
    shapes, loss_sum = sum_of_losses(V, D, F)

    def program(parameters: Any, token_ids: Any) -> Arrays:
        loss, gradients = called_on_mesh(subject, "data_parallel_gradient", loss_sum, parameters, token_ids, mesh)
        return {**named(loss, "loss"), **named(gradients, "gradients")}

    parameters = {key: placed(to_fill(key, shape, "float32"), mesh, P()) for key, shape in shapes.items()}
    return subject.run(program, case, parameters, placed(given(case, "token_ids"), mesh, P("data", None)))


PROBES = {"forward": forward, "slopes": slopes, "training": training}
