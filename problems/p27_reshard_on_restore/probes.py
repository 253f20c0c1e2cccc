"""Probes of problem 27: a checkpoint from a 4 x 2 mesh is restored on 2 x 2 and on 1 x 1. Run in workers."""

import contextlib
import sys
from collections.abc import Iterator
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
def restored(subject: Subject, case: Case, *, large: bool) -> Reading:
    """Values and shardings of all restored arrays on each mesh. In a process that has only the files of the checkpoint.

    If the model is too `large` for one device, calling `make` for real raises, and so does holding an array whole on a device of
    a mesh that splits it. This can only cost points: it is the submission's process that watches.
    """
    if subject.received is None:
        raise BadOutputError("`save` left no file")
    path = str(subject.received / CHECKPOINT)
    arrays: dict[str, Any] = {}
    make = never_real(_make(case)) if large else _make(case)
    for shape in ((2, 2), (1, 1)):
        mesh, name = mesh_of(*shape), "{}x{}".format(*shape)
        with _never_whole(subject, case, mesh) if large else contextlib.nullcontext():
            model, optimizer = subject.call("restore_on", path, make, mesh)
        if not isinstance(model, ToyLM):
            raise BadOutputError(f"`restore_on` returned {described(model)} in place of the model")
        nodes = {"model": model, "optimizer": optimizer}
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


@contextlib.contextmanager
def _never_whole(subject: Subject, case: Case, mesh: Mesh) -> Iterator[None]:
    """Raises BadOutputError at the end if, between two steps of the submission's code, a device held an array that the mesh
    splits, all of it."""
    parts = mesh.shape["model"]
    leaves = nnx.to_flat_state(nnx.state(nnx.eval_shape(_make(case))[0]))
    split = {x.shape: ".".join(map(str, path)) for path, x in leaves if x.ndim and x.shape[-1] % parts == 0}
    kept = jax.live_arrays()  # so that no new array gets the identity of an old one
    before = {id(array) for array in kept}
    found: list[str] = []

    def look(frame: Any, event: str, argument: object) -> None:
        own = next((f for f in (frame, frame.f_back) if f and f.f_globals is subject.namespace), None)
        if own is None or found or parts == 1:
            return
        new = [array for array in jax.live_arrays() if id(array) not in before and array.shape in split]
        whole = [x.shape for x in new if x.sharding.shard_shape(x.shape)[-1] == x.shape[-1]]
        if whole:
            shape = min(whole, key=split.__getitem__)
            found.append(f"a device held all of {shape}, such as `{split[shape]}`, at line {own.f_lineno}")

    profile = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(profile)
    if found:
        raise BadOutputError(f"{found[0]}: restore each array straight into its parts")


def _bytes(nodes: tuple[Any, ...], mesh: Mesh) -> np.ndarray[Any, Any]:
    try:
        return bytes_on_device(nodes, mesh)
    except KeyError:
        raise BadOutputError(
            "`restore_on` left some arrays on devices outside the given mesh; put every array on `mesh`"
        ) from None


PROBES = {"saving": saving, "restored": restored}
