"""Probes of problem 27: a checkpoint from a 4 x 2 mesh is restored on 2 x 2 and on 1 x 1. Run in workers."""

from typing import Any

import jax
import numpy as np
import orbax.checkpoint  # noqa: F401  imported before the confinement, as every submission needs it
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from grader.problem import Case
from grader.worker.files import new_folder
from grader.worker.placement import bytes_on_device, mesh_of, places
from grader.worker.pytrees import BadOutputError, described, named
from grader.worker.subject import Reading, Subject, eager
from grader.worker.toy_models import ToyLM, mid_training, model_factory, never_real

CHECKPOINT = "checkpoint"


@eager
def saving(subject: Subject, case: Case) -> Reading:
    """The folder with a checkpoint of a model and an optimizer on a 4 x 2 mesh."""
    model, optimizer = mid_training(_make(case), case.seed)
    for node in (model, optimizer):
        _spread(node, mesh_of(4, 2))
    folder = new_folder()
    subject.save(str(folder / CHECKPOINT), model, optimizer)
    return Reading(files=folder / CHECKPOINT)


@eager
def restored(subject: Subject, case: Case, *, make_runs: bool) -> Reading:
    """Values and shardings of all restored arrays on each mesh. In a process that has only the files of the checkpoint.

    Unless `make_runs`, calling `make` for real raises: there is no memory for a second model.
    """
    if subject.received is None:
        raise BadOutputError("`save` left no file")
    path = str(subject.received / CHECKPOINT)
    arrays: dict[str, Any] = {}
    make = _make(case) if make_runs else never_real(_make(case))
    for shape in ((2, 2), (1, 1)):
        mesh, name = mesh_of(*shape), "{}x{}".format(*shape)
        pair = subject.call("restore_on", path, make, mesh)
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], ToyLM)):
            raise BadOutputError(f"`restore_on` must return (model, optimizer); yours returned {described(pair)}")
        nodes = {"model": pair[0], "optimizer": pair[1]}
        for kind, node in nodes.items():
            arrays |= jax.tree.map(np.asarray, named(nnx.state(node), f"values.{kind}.{name}"))
            arrays |= places(node, f"placed.{kind}.{name}", mesh)
        arrays[f"bytes_on_device.{name}"] = _bytes(tuple(nodes.values()), mesh)
    return Reading(arrays)


def _make(case: Case) -> Any:
    return model_factory(*(int(case.values[key]) for key in ("vocab_size", "d_model", "d_ff")))


def _spread(node: Any, mesh: Mesh) -> None:
    def place(leaf: jax.Array) -> jax.Array:
        fits = leaf.ndim and leaf.shape[-1] % mesh.shape["model"] == 0
        spec = PartitionSpec(*[None] * (leaf.ndim - 1), "model") if fits else PartitionSpec()
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    nnx.update(node, jax.tree.map(place, nnx.state(node)))


def _bytes(nodes: tuple[Any, ...], mesh: Mesh) -> np.ndarray[Any, Any]:
    try:
        return bytes_on_device(nodes, mesh)
    except KeyError:
        raise BadOutputError(
            "`restore_on` left some arrays on devices outside the given mesh; put every array on `mesh`"
        ) from None


PROBES = {"saving": saving, "restored": restored}
