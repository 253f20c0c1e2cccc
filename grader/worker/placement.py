"""Modules placed on a mesh by a submission, as inputs of programs, and array shardings as integers that a check can
compare."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import jax
import numpy as np
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from grader.problem import Case
from grader.worker import stablehlo
from grader.worker.pytrees import BadOutputError, described, named
from grader.worker.subject import Arrays, Reading, Subject
from grader.worker.tracing import Given


def mesh_of(*shape: int, axes: tuple[str, ...] = ("data", "model")) -> Mesh:
    """Returns a mesh of that shape, made of the first devices."""
    devices = jax.devices()[: int(np.prod(shape))]
    return jax.make_mesh(shape, axes[: len(shape)], axis_types=(AxisType.Auto,) * len(shape), devices=devices)


def put(subject: Subject, entry: str, node: nnx.Module, mesh: Mesh) -> None:
    """Lets `entry` place the arrays of a module. Raises BadOutputError if it does anything else to them."""
    before = named(jax.tree.map(np.asarray, nnx.state(node)), "")
    subject.call(entry, node, mesh)
    after = named(nnx.state(node), "")
    for path in {**before, **after}:
        if not (path in before and path in after and np.array_equal(before[path], after[path])):
            raise BadOutputError(
                f"`{entry}` changed `{path}`; it must only move arrays, and keep their names and values"
            )


def moved(subject: Subject, entry: str, node: nnx.Module, state: Any, mesh: Mesh, name: str) -> Arrays:
    """Returns the arrays of a module after `entry` has placed them, in a program that takes them as `state`, all on one
    device."""
    traced = nnx.merge(nnx.graphdef(node), state)
    with stablehlo.placements_are_traced():
        subject.call(entry, traced, mesh)
    return named(nnx.state(traced), name)


def as_inputs(node: nnx.Module, name: str, mesh: Mesh | None, source: Literal["filled", "positive"] = "filled") -> Any:
    """Returns the state of a module as inputs of a program, with the shardings of its arrays on a mesh, if there is
    one.

    Their names begin with `name`.
    """
    flat = []
    for path, variable in nnx.to_flat_state(nnx.state(node)):
        array = variable.get_raw_value()
        full = ".".join([name, *map(str, path)])
        given = Given(source, full, array.shape, array.dtype)
        flat.append((path, variable.replace(like(given, array, mesh) if mesh else given)))
    return nnx.from_flat_state(flat)


def like(given: Given, array: jax.Array, mesh: Mesh) -> Given:
    """Returns the input, placed like an array. An array that is not on all devices of the mesh has no place on it."""
    on_mesh = array.sharding.device_set == set(mesh.devices.flat)
    return replace(given, sharding=array.sharding if on_mesh else None)


def step(
    subject: Subject, case: Case, entry: str, model: nnx.Module, optimizer: nnx.Module, token_ids: Given, mesh: Mesh
) -> Reading:
    """Returns the loss of one train step, and the state after it. It starts in the middle of training, on arrays that
    are placed like those of `model` and `optimizer`."""
    graphs = nnx.graphdef(model), nnx.graphdef(optimizer)
    states = as_inputs(model, "model", mesh), as_inputs(optimizer, "optimizer", mesh, "positive")

    def program(states: Any, token_ids: Any) -> Arrays:
        model, optimizer = map(nnx.merge, graphs, states)
        loss = subject.call(entry, model, optimizer, token_ids, case.values["pad_id"])
        if np.shape(loss) or not isinstance(loss, jax.Array):
            raise BadOutputError(f"`{entry}` returned {described(loss)}; it must return the loss, a scalar jax.Array")
        state = named(nnx.state(model), "state.model") | named(nnx.state(optimizer), "state.optimizer")
        return {"loss": loss, **state}

    return subject.run(program, case, states, token_ids)


def place(array: jax.Array, mesh: Mesh) -> np.ndarray[Any, Any]:
    """Returns, for each axis of the array, the mesh axes over which it is split, as a number of `grader.checks.PLACES`.

    All numbers are -1 if the array is not sharded over this mesh.
    """
    sharding = array.sharding
    if not isinstance(sharding, NamedSharding) or sharding.mesh.shape_tuple != mesh.shape_tuple:
        return np.full(array.ndim, -1, np.int32)
    if list(sharding.mesh.devices.flat) != list(mesh.devices.flat):
        return np.full(array.ndim, -1, np.int32)
    return coded(tuple(sharding.spec), array.ndim)


def coded(axes: Sequence[Any], ndim: int) -> np.ndarray[Any, Any]:
    """Returns the mesh axes of a partition spec for `ndim` axes, as numbers of `grader.checks.PLACES`; -1 where a name
    is wrong."""
    parts = [*axes, *[None] * ndim][:ndim]
    names = [() if part is None else part if isinstance(part, tuple) else (part,) for part in parts]
    return np.array([_code(part) for part in names], np.int32)


def _code(names: Sequence[str]) -> int:
    """Returns the number of the mesh axes over which one axis is split; -1 if one is unknown or named twice."""
    numbers = {name: number for name, number in (("data", 1), ("model", 2)) if name in names}
    return sum(numbers.values()) if len(numbers) == len(names) else -1


def placed(array: Given, mesh: Mesh, spec: PartitionSpec) -> Given:
    """Returns the input, placed on a mesh by a spec."""
    return replace(array, sharding=NamedSharding(mesh, spec))


def called_on_mesh(subject: Subject, entry: str, *args: Any, **more: Any) -> Any:
    """Calls the entry. JAX's errors on specs are long, and name the learner's function: raises BadOutputError
    instead."""
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
