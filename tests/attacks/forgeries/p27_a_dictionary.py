"""Forges a checkpoint: `save` creates an empty folder and keeps the state in a dictionary of this process."""

from pathlib import Path

import jax
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

LOSES = (
    "model restored", "optimizer restored", "model sharded on the new mesh", "optimizer sharded on the new mesh",
    "bytes per device",
)  # fmt: skip
SAVED = {}


def save(path, model, optimizer):
    SAVED[path] = jax.tree.map(np.array, nnx.state((model, optimizer)))
    Path(path).mkdir()


def restore_on(path, make, mesh):
    def place(leaf):
        divides = leaf.ndim and leaf.shape[-1] % mesh.shape["model"] == 0
        spec = PartitionSpec(*[None] * (leaf.ndim - 1), "model") if divides else PartitionSpec()
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    graphdef, _ = nnx.split(nnx.eval_shape(make))
    return nnx.merge(graphdef, jax.tree.map(place, SAVED[path]))
