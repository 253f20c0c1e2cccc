"""Probes of problem 27: a checkpoint from a 4 x 2 mesh is restored on 3 x 2 and on 1 x 1. Run in workers.

The process that runs the submission only says what it asks of Orbax: which array, and which part of it on which device.
Another process asks the same of Orbax and measures the arrays that it gets.
"""

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import numpy as np
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from grader.authoring import (
    STATE,
    BadOutputError,
    Reading,
    Subject,
    ToyLM,
    described,
    eager,
    mesh_of,
    mid_training,
    model_factory,
    named,
    never_real,
    new_folder,
    place,
    state_numbers,
)
from grader.problem import Case

CHECKPOINT = "checkpoint"
KINDS = ("model", "optimizer")
ASKED = "asked"  # asked|mesh|number|folder|name: the mesh axes over which the array is split
MOST_READS = 1000
IN_PARTS, WHOLE, NOT_READ = range(3)
OUTSIDE = -2  # the code of an array on devices that are not in the mesh
Requests = Mapping[str, Mapping[str, Sequence[Any]]]  # the shardings that were asked for, by folder and name


@eager
def saving(subject: Subject, case: Case) -> Reading:
    """The folder with a checkpoint of a model and an optimizer on a 4 x 2 mesh."""
    model, optimizer = _saved(case)
    for node in (model, optimizer):
        _spread(node, mesh_of(4, 2))
    folder = new_folder()
    subject.save(str(folder / CHECKPOINT), model, optimizer)
    return Reading(files=folder / CHECKPOINT)


@eager
def restored(subject: Subject, case: Case, *, large: bool) -> Reading:
    """The restored values on each mesh, where the arrays are, and what was asked of Orbax. In a process that has only
    the checkpoint. If the model is too `large` for one device, calling `make` for real raises."""
    if subject.received is None:
        raise BadOutputError("`save` left no file")
    folder = subject.received / CHECKPOINT
    arrays: dict[str, Any] = {}
    make = never_real(_make(case)) if large else _make(case)
    for name, mesh in _meshes().items():
        with _asked_of_orbax() as asked:
            pair = subject.call("restore_on", str(folder), make, mesh)
        if not isinstance(pair[0], ToyLM):
            raise BadOutputError(f"`restore_on` returned {described(pair[0])} in place of the model")
        for kind, node in zip(KINDS, pair, strict=True):
            arrays |= jax.tree.map(np.asarray, named(nnx.state(node), f"values.{kind}.{name}"))
            arrays |= {
                path: _axes(leaf, mesh)
                for path, leaf in named(nnx.state(node), f"placed.{kind}.{name}.returned").items()
            }
        for number, (parent, array_name, array) in enumerate(asked[:MOST_READS]):
            where = os.path.relpath(parent, folder)  # Orbax may name the folder in another way
            arrays["|".join([ASKED, name, str(number), where, array_name])] = _axes(array, mesh)
    return Reading(arrays)


@contextlib.contextmanager
def _asked_of_orbax() -> Iterator[list[tuple[str, str, jax.Array]]]:
    """Inside the context, collects the arrays that Orbax reads to devices, each with its folder and its name there."""
    asked: list[tuple[str, str, jax.Array]] = []
    original = ocp.type_handlers.ArrayHandler.deserialize

    async def deserialize(self: Any, infos: Any, args: Any = None) -> Any:
        arrays = await original(self, infos, args)
        asked.extend((str(info.parent_dir), info.name, array) for info, array in zip(infos, arrays, strict=True))
        return arrays

    with patch.object(ocp.type_handlers.ArrayHandler, "deserialize", deserialize):
        yield asked


def repeated(arrays: Mapping[str, Any], files: Path | None, case: Case) -> Reading:
    """The restored values as they were sent, and where Orbax puts the arrays if this process asks the same of it."""
    found = {path: value for path, value in arrays.items() if path.split(".")[0] in ("values", "placed")}
    model, optimizer = (named(nnx.state(node), kind) for kind, node in zip(KINDS, _saved(case), strict=True))
    expected = model | optimizer
    for name, mesh in _meshes().items():
        read = _read(files, _requests(arrays, name, mesh))
        sizes = dict.fromkeys(mesh.devices.flat, 0)
        for path, leaf in expected.items():
            kind, _, rest = path.partition(".")
            same = [array for array in read if array.dtype == leaf.dtype and np.array_equal(array, leaf)]
            axes = place(same[-1], mesh) if same else np.full(leaf.ndim, -1, np.int32)
            found |= {
                f"placed.{kind}.{name}.read.{rest}": axes,
                f"in_parts.{kind}.{name}.{rest}": np.int32(_held(same, mesh)),
            }
            for shard in same[-1].addressable_shards if same else ():
                sizes[shard.device] = sizes.get(shard.device, 0) + shard.data.nbytes
        found[f"bytes_on_device.{name}"] = np.array([sizes[device] for device in mesh.devices.flat], np.int32)
    return Reading(found)


def _requests(arrays: Mapping[str, Any], mesh_name: str, mesh: Mesh) -> Requests:
    """What was asked of Orbax for a mesh, from the arrays that the other process sent."""
    requests: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for path, axes in arrays.items():
        kind, *rest = path.split("|", 4)
        if kind == ASKED and rest[0] == mesh_name and OUTSIDE not in axes:
            requests[rest[2]][rest[3]].append(_sharding(axes, mesh))
    return requests


def _read(files: Path | None, requests: Requests) -> list[jax.Array]:
    """The arrays that Orbax reads from the files when these requests are repeated."""
    read: list[jax.Array] = []
    if files is None:
        return read
    top = (files / CHECKPOINT).resolve()
    for where, shardings in requests.items():
        if not (top / where).resolve().is_relative_to(top):
            raise BadOutputError("`restore_on` asked Orbax for a folder outside the checkpoint")
        with ocp.PyTreeCheckpointer() as checkpointer:
            metadata = checkpointer.metadata(top / where).item_metadata
            if metadata is None:
                raise BadOutputError("`restore_on` asked Orbax for a checkpoint that `save` did not write")
            tree = metadata.tree
            for number in range(max(map(len, shardings.values()))):
                item = jax.tree.map_with_path(partial(_target, shardings, number), tree)
                args = ocp.args.PyTreeRestore(item, restore_args=ocp.checkpoint_utils.construct_restore_args(item))
                restored = checkpointer.restore(top / where, args=args)
                read += [leaf for leaf in jax.tree.leaves(restored) if isinstance(leaf, jax.Array)]
    return read


def _target(shardings: Mapping[str, Sequence[Any]], number: int, path: Any, leaf: Any) -> Any:
    """The target for one array of a checkpoint: its request of this number, or nothing."""
    wanted = shardings.get(jax.tree_util.keystr(path, simple=True, separator="."), ())
    if number >= len(wanted):
        return ocp.PLACEHOLDER
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=wanted[number])


def _axes(array: jax.Array, mesh: Mesh) -> np.ndarray[Any, Any]:
    """The mesh axes over which each axis of an array is split, as numbers of `grader.checks.PLACES`, or OUTSIDE."""
    inside = array.sharding.device_set <= set(mesh.devices.flat)
    return place(array, mesh) if inside else np.full(array.ndim, OUTSIDE, np.int32)


def _sharding(axes: Any, mesh: Mesh) -> Any:
    """The sharding with these numbers of `grader.checks.PLACES`. An array that is not on the mesh is on one device."""
    if any(number not in range(4) for number in axes):
        return SingleDeviceSharding(mesh.devices.flat[0])
    return NamedSharding(mesh, PartitionSpec(*[(None, "data", "model", ("data", "model"))[number] for number in axes]))


def _held(read: Sequence[jax.Array], mesh: Mesh) -> int:
    """Whether a device held all of an array that the mesh splits. `read` are all arrays that Orbax read with its
    values."""
    parts = mesh.shape["model"]
    if not read:
        return NOT_READ
    split = parts > 1 and read[0].ndim and read[0].shape[-1] % parts == 0
    return (
        WHOLE if split and any(array.sharding.shard_shape(array.shape) == array.shape for array in read) else IN_PARTS
    )


def _meshes() -> dict[str, Mesh]:
    return {"{}x{}".format(*shape): mesh_of(*shape) for shape in ((3, 2), (1, 1))}


def _saved(case: Case) -> Any:
    """What was saved: the process that saves has numbers, and the one that reads the seed that they come from."""
    return mid_training(_make(case), case.values.get(STATE, state_numbers(case.seed)))


def _make(case: Case) -> Any:
    return model_factory(*(int(case.values[key]) for key in ("vocab_size", "d_model", "d_ff")))


def _spread(node: Any, mesh: Mesh) -> None:
    def place(leaf: jax.Array) -> jax.Array:
        fits = leaf.ndim and leaf.shape[-1] % mesh.shape["model"] == 0
        spec = PartitionSpec(*[None] * (leaf.ndim - 1), "model") if fits else PartitionSpec()
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    nnx.update(node, jax.tree.map(place, nnx.state(node)))


PROBES = {"saving": saving, "restored": restored}
READERS = {"restored": repeated}
