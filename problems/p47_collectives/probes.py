"""Probes of problem 47: two MLPs and a gradient on eight CPU devices. Run in workers."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from grader.problem import Case
from grader.worker import stablehlo
from grader.worker.measures import Execution
from grader.worker.placement import mesh_of
from grader.worker.probes import cotangent
from grader.worker.pytrees import BadOutputError, named
from grader.worker.subject import Arrays, Reading, Subject, to_fill
from grader.worker.tracing import Given, given

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
    arrays = {name: _placed(given(case, name), mesh, spec) for name, spec in places.items()}

    def call(arrays: Arrays) -> Any:
        return _called(subject, entry, *(arrays[name] for name in places), mesh, returns=(jax.Array, "one jax.Array"))

    return call, arrays


def _called(subject: Subject, entry: str, *args: Any, **more: Any) -> Any:
    """Calls the entry. JAX's errors on specs are long, and name the learner's function: raises BadOutputError instead."""
    try:
        return subject.call(entry, *args, **more)
    except ValueError as error:
        if "which require replication" in str(error):
            sentence = "a result with the spec P() may differ between devices; is a `psum` missing?"
        elif found := _UNEVEN.search(str(error)):
            sentence = "`in_specs` gives the argument {} the spec {}, but 8 does not divide its axis {}".format(
                *found.groups()
            )
        else:
            raise
        raise BadOutputError(f"`{entry}`: {sentence}").with_traceback(error.__traceback__) from None


_UNEVEN = re.compile(r"of shape (\S+\]),.* of value (P\(.*?\)), which maps array axis (\d+) \(of size")


def training(subject: Subject, case: Case) -> Reading:
    """The mean loss and the gradients by name. The rows of the batch are placed over the devices."""
    mesh = mesh_of(8)
    V, D, F = (int(case.values[key]) for key in ("vocab_size", "d_model", "d_ff"))  # type: ignore[arg-type]
    shapes = {"embed": (V, D), "ff1": (D, F), "bias": (F,), "head": (F, V)}

    def loss_sum(parameters: Any, token_ids: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = jax.nn.relu(parameters["embed"][token_ids] @ parameters["ff1"] + parameters["bias"])
        losses = optax.softmax_cross_entropy_with_integer_labels((x @ parameters["head"])[:, :-1], token_ids[:, 1:])
        real = token_ids[:, 1:] != V - 1
        return jnp.sum(losses * real), jnp.sum(real)

    def program(parameters: Any, token_ids: Any) -> Arrays:
        loss, gradients = _called(subject, "data_parallel_gradient", loss_sum, parameters, token_ids, mesh)
        return {**named(loss, "loss"), **named(gradients, "gradients")}

    parameters = {key: _placed(to_fill(key, shape, "float32"), mesh, P()) for key, shape in shapes.items()}
    return subject.run(program, case, parameters, _placed(given(case, "token_ids"), mesh, P("data", None)))


def _placed(array: Given, mesh: Mesh, spec: PartitionSpec) -> Given:
    return replace(array, sharding=NamedSharding(mesh, spec))


FEW_SCALARS = 64  # bytes: sums of a loss, a count and the like
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "collective_permute", "all_to_all", "collective_broadcast")


def exchanged(execution: Execution) -> dict[str, Any]:
    """The bytes that collectives produce on each device in one run: by kind as compiled, and in all as the code calls them.

    A few scalars do not count.
    """
    scalars = sum(each.times * each.size for each in execution.collectives if each.is_scalar)
    few = scalars <= FEW_SCALARS
    sizes = dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter", "others"), 0)
    for each in execution.collectives:
        name = each.kind.replace("-", "_")
        size = sum(size for elements, size in each.arrays if elements > 1 or not few)
        sizes[name if name in sizes else "others"] += math.ceil(each.times * size)
    written = 0
    for run in execution.runs:
        if run.operation.name.removeprefix("stablehlo.") in KINDS:
            results = [x for x in run.operation.results if np.prod(stablehlo.shape(x)) > 1 or not few]
            written += run.times * sum(map(stablehlo.tensor_bytes, results))
    return {key: np.int64(size) for key, size in {**sizes, "written": written}.items()}


PROBES = {"forward": forward, "slopes": slopes, "training": training}
MEASURES = {"exchanged": exchanged}
