"""Probes of problem 27: a checkpoint from a 4 x 2 mesh is restored on 2 x 2 and on 1 x 1. Run in workers."""

import itertools
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint  # noqa: F401  imported before the confinement, as every submission needs it
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from grader.problem import Case
from grader.worker.placement import bytes_on_device, mesh_of, places
from grader.worker.pytrees import BadOutputError, described, named
from grader.worker.subject import Reading, Subject
from grader.worker.toy_models import CallCounter, ToyLM, mid_training, model_factory

_numbers = itertools.count()


def restored(subject: Subject, case: Case) -> Reading:
    """Values and shardings of all restored arrays on each mesh, and how often `make` ran for real."""
    make = model_factory(*(int(case.values[key]) for key in ("vocab_size", "d_model", "d_ff")))
    path = str(Path.cwd() / f"checkpoint-{next(_numbers)}")
    model, optimizer = mid_training(make, case.seed)
    for node in (model, optimizer):
        _spread(node, mesh_of(4, 2))
    subject.save(path, model, optimizer)
    arrays: dict[str, Any] = {}
    counting = CallCounter(make)
    for shape in ((2, 2), (1, 1)):
        mesh, name = mesh_of(*shape), "{}x{}".format(*shape)
        pair = subject.call("restore_on", path, counting, mesh)
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], ToyLM)):
            raise BadOutputError(f"`restore_on` must return (model, optimizer); yours returned {described(pair)}")
        nodes = {"model": pair[0], "optimizer": pair[1]}
        for kind, node in nodes.items():
            arrays |= jax.tree.map(np.asarray, named(nnx.state(node), f"values.{kind}.{name}"))
            arrays |= places(node, f"placed.{kind}.{name}", mesh)
        arrays[f"bytes_on_device.{name}"] = _bytes(tuple(nodes.values()), mesh)
    return Reading({**arrays, "real_calls_of_make": np.int32(counting.real_calls)})


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


PROBES = {"restored": restored}
