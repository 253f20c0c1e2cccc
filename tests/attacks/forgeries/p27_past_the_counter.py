"""Forges "no array whole on one device": runs the function that the grader's counter wraps."""

import jax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

LOSES = ("no array whole on one device",)


def save(path, model, optimizer):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, nnx.state((model, optimizer)))


def restore_on(path, make, mesh):
    def place(leaf):
        divides = leaf.ndim and leaf.shape[-1] % mesh.shape["model"] == 0
        spec = PartitionSpec(*[None] * (leaf.ndim - 1), "model") if divides else PartitionSpec()
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    graphdef, state = nnx.split(getattr(make, "make", make)())
    with ocp.StandardCheckpointer() as checkpointer:
        return nnx.merge(graphdef, checkpointer.restore(path, jax.tree.map(place, state)))
