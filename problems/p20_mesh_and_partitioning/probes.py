"""Probes of problem 20: meshes, specs, placed parameters, and the traffic of a forward pass. Runs in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from grader.problem import Case
from grader.worker.compiled import gathered_bytes
from grader.worker.placement import bytes_on_device, coded, mesh_of, places
from grader.worker.pytrees import BadOutputError, named
from grader.worker.subject import Reading, Subject
from grader.worker.toy_models import ToyGPT, gpt_logits


def meshes(subject: Subject, case: Case) -> Reading:
    """The axes of three meshes: their names (1 for `data`, 2 for `model`), sizes, and whether their type is Auto."""
    arrays: dict[str, Any] = {}
    for data, model in ((4, 2), (2, 2), (1, 1)):
        mesh = subject.call("make_mesh", data, model, returns=(Mesh, "a jax.sharding.Mesh"))
        name = f"mesh.{data}x{model}"
        arrays[f"{name}.names"] = coded(mesh.axis_names, len(mesh.axis_names))
        arrays[f"{name}.sizes"] = np.array(mesh.devices.shape, np.int32)
        arrays[f"{name}.auto"] = np.array([kind == AxisType.Auto for kind in mesh.axis_types], np.int32)
    return Reading(arrays)


def placed(subject: Subject, case: Case) -> Reading:
    """The spec of each parameter, its sharding after `place`, and the logits and gathered bytes of the forward pass."""
    mesh = mesh_of(4, 2)
    model: Any = ToyGPT.of(case)
    arrays: dict[str, Any] = {
        f"spec.{path}": _spec(subject, path, tuple(leaf.shape), mesh)
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


def _spec(subject: Subject, path: str, shape: tuple[int, ...], mesh: Mesh) -> np.ndarray[Any, Any]:
    """The spec that `partition_spec` returns for one parameter, encoded as integers. Raises BadOutputError if it is too long."""
    spec = subject.call("partition_spec", path, shape, mesh, returns=(PartitionSpec, "a PartitionSpec"))
    if len(spec) > len(shape):
        raise BadOutputError(
            f"`partition_spec` returned {spec} for the shape {shape}; it must not have more entries than the shape"
        )
    return coded(tuple(spec), len(shape))


PROBES = {"meshes": meshes, "placed": placed}
