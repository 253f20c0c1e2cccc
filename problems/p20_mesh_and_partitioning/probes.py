"""Probes of problem 20: meshes, specs, and the forward pass of a placed model. Runs in workers."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from grader.authoring import (
    Arrays,
    BadOutputError,
    Reading,
    Subject,
    ToyGPT,
    as_inputs,
    coded,
    given,
    gpt_logits,
    mesh_of,
    moved,
    put,
)
from grader.problem import Case


def meshes(subject: Subject, case: Case) -> Reading:
    """The axes of some meshes: their names (1 for `data`, 2 for `model`), sizes, and whether their type is Auto. Also
    the number of different devices in each."""
    arrays: Arrays = {}
    for data, model in ((4, 2), (2, 2), (1, 1), (1, 8)):
        mesh = subject.call("make_mesh", data, model, returns=(Mesh, "a jax.sharding.Mesh"))
        name = f"mesh.{data}x{model}"
        arrays[f"{name}.names"] = coded(mesh.axis_names, len(mesh.axis_names))
        arrays[f"{name}.sizes"] = np.array(mesh.devices.shape, np.int32)
        arrays[f"{name}.devices"] = np.int32(len(set(mesh.devices.flat)))
        arrays[f"{name}.auto"] = np.array([kind == AxisType.Auto for kind in mesh.axis_types], np.int32)
    return subject.run(lambda: arrays, case)


def specs(subject: Subject, case: Case) -> Reading:
    """The spec that `partition_spec` returns for each parameter on two meshes, as numbers.

    Raises BadOutputError if a spec is too long.
    """
    arrays = {}
    for prefix, mesh in (("spec", mesh_of(4, 2)), ("spec.on_2x4", mesh_of(2, 4))):
        for parts, parameter in nnx.to_flat_state(ToyGPT.abstract(case)[1]):
            path, shape = ".".join(map(str, parts)), parameter.get_raw_value().shape
            spec = subject.call("partition_spec", path, shape, mesh, returns=(PartitionSpec, "a PartitionSpec"))
            if len(spec) > len(shape):
                raise BadOutputError(
                    f"`partition_spec` returned {spec} for the shape {shape}; it must not have more entries than the "
                    "shape"
                )
            arrays[f"{prefix}.{path}"] = coded(tuple(spec), len(shape))
    return subject.run(lambda: arrays, case)


def placing(subject: Subject, case: Case, *, shape: list[int]) -> Reading:
    """The parameters of a model that `place` moves to a mesh of that shape, in a program of its own."""
    mesh = mesh_of(*shape)
    model: Any = ToyGPT.of(case)

    def program(state: Any) -> Arrays:
        return moved(subject, "place", model, state, mesh, "model")

    return subject.run(program, case, as_inputs(model, "model", None))


def forward(subject: Subject, case: Case) -> Reading:
    """The logits of a model that `place` placed, for a batch that is split over `data`."""
    mesh = mesh_of(4, 2)
    model: Any = ToyGPT.of(case)
    put(subject, "place", model, mesh)
    graphdef = nnx.graphdef(model)

    def program(state: Any, token_ids: Any) -> Arrays:
        return {"logits": jax.vmap(lambda ids: gpt_logits(nnx.merge(graphdef, state), ids))(token_ids)}

    token_ids = replace(given(case, "token_ids"), sharding=NamedSharding(mesh, PartitionSpec("data", None)))
    return subject.run(program, case, as_inputs(model, "model", mesh), token_ids)


PROBES = {"meshes": meshes, "specs": specs, "placing": placing, "forward": forward}
