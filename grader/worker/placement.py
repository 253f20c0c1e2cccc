"""Array shardings, encoded as integers that a check can compare."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding

from grader.worker.pytrees import named


def mesh_of(*shape: int, axes: tuple[str, ...] = ("data", "model")) -> Mesh:
    """A mesh of that shape, made of the first devices."""
    devices = jax.devices()[: int(np.prod(shape))]
    return jax.make_mesh(shape, axes[: len(shape)], axis_types=(AxisType.Auto,) * len(shape), devices=devices)


def places(node: Any, prefix: str, mesh: Mesh) -> dict[str, np.ndarray[Any, Any]]:
    """The `place` of every array of a module or an optimizer, by path."""
    return {path: place(leaf, mesh) for path, leaf in named(nnx.state(node), prefix).items()}


def place(array: jax.Array, mesh: Mesh) -> np.ndarray[Any, Any]:
    """For each axis of the array, the mesh axes over which it is split, as a number of `grader.checks.PLACES`.

    All numbers are -1 if the array is not sharded over this mesh.
    """
    sharding = array.sharding
    if not isinstance(sharding, NamedSharding) or sharding.mesh.shape_tuple != mesh.shape_tuple:
        return np.full(array.ndim, -1, np.int32)
    return coded(tuple(sharding.spec), array.ndim)


def coded(axes: Sequence[Any], ndim: int) -> np.ndarray[Any, Any]:
    """The mesh axes of a partition spec for `ndim` axes, as numbers of `grader.checks.PLACES`; -1 for an unknown name."""
    parts = [*axes, *[None] * ndim][:ndim]
    names = [() if part is None else part if isinstance(part, tuple) else (part,) for part in parts]
    return np.array([sum({"data": 1, "model": 2}.get(name, -1) for name in part) for part in names], np.int32)


def bytes_on_device(nodes: tuple[Any, ...], mesh: Mesh) -> np.ndarray[Any, Any]:
    """The bytes that the arrays of these modules occupy on each device of the mesh."""
    sizes = dict.fromkeys((device.id for device in mesh.devices.flat), 0)
    for leaf in jax.tree.leaves([nnx.state(node) for node in nodes]):
        for shard in leaf.addressable_shards:
            sizes[shard.device.id] += shard.data.nbytes
    return np.array(list(sizes.values()), np.int32)
