"""What problem 20 looks at: meshes, specs, placed parameters, and what a forward pass then sends. Runs in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from grader.leaves import BadOutput, described, fill_module, named
from grader.placement import bytes_on_device, mesh_of, places
from grader.probes import Reading, Subject
from grader.problem import Case
from grader.programs import gathered_bytes
from grader.toy import ToyGPT, gpt_logits

SIZES = ("vocab_size", "d_model", "num_heads", "d_ff", "num_layers", "context")
AXES = {None: 0, "data": 1, "model": 2}


def meshes(subject: Subject, case: Case) -> Reading:
    """The axes of three meshes: their names (1 for `data`, 2 for `model`), sizes, types, and which devices they take."""
    arrays: dict[str, Any] = {}
    for data, model in ((4, 2), (2, 2), (1, 1)):
        mesh = subject.call("make_mesh", data, model)
        if not isinstance(mesh, Mesh):
            raise BadOutput(f"`make_mesh` returned {described(mesh)}; it must return a jax.sharding.Mesh")
        name = f"mesh.{data}x{model}"
        arrays[f"{name}.names"] = np.array([AXES.get(axis, -1) for axis in mesh.axis_names], np.int32)
        arrays[f"{name}.sizes"] = np.array(mesh.devices.shape, np.int32)
        arrays[f"{name}.auto"] = np.array([kind == AxisType.Auto for kind in mesh.axis_types], np.int32)
    return Reading(arrays)


def placed(subject: Subject, case: Case) -> Reading:
    """The spec of each parameter, where `place` puts it, and what the forward pass computes and gathers then."""
    mesh = mesh_of(4, 2)
    model: Any = ToyGPT(*(case.values[name] for name in SIZES))
    fill_module(model, case.seed)
    arrays: dict[str, Any] = {
        f"spec.{path}": _spec(subject.call("partition_spec", path, tuple(leaf.shape), mesh), leaf.ndim)
        for path, leaf in named(nnx.state(model), "").items()
    }
    subject.call("place", model, mesh)
    arrays |= places(model, "placed", mesh) | {"bytes_on_device": bytes_on_device((model,), mesh)}
    graphdef, state = nnx.split(model)
    token_ids = jax.device_put(jnp.asarray(case.values["token_ids"]), NamedSharding(mesh, PartitionSpec("data", None)))

    def forward(state: Any, token_ids: jax.Array) -> jax.Array:
        return jax.vmap(lambda ids: gpt_logits(nnx.merge(graphdef, state), ids))(token_ids)

    compiled = jax.jit(forward).lower(state, token_ids).compile()
    arrays["logits"] = np.asarray(compiled(state, token_ids))
    arrays["bytes_gathered"] = np.int32(gathered_bytes(compiled.as_text()))
    return Reading(arrays)


def _spec(spec: Any, ndim: int) -> np.ndarray[Any, Any]:
    """For each axis, over what it is split, in the numbers of `grader.checks.PLACES`."""
    if not isinstance(spec, PartitionSpec):
        raise BadOutput(f"`partition_spec` returned {described(spec)}; it must return a PartitionSpec")
    if len(spec) > ndim:
        raise BadOutput(f"`partition_spec` returned {spec} for an array of {ndim} axes")
    parts = [*spec, *[None] * ndim][:ndim]
    names = [part if isinstance(part, tuple) else (part,) for part in parts]
    return np.array([sum(AXES.get(name, -1) for name in part) for part in names], np.int32)


PROBES = {"meshes": meshes, "placed": placed}
