"""Forges "no array whole on one device": draws a whole set of parameters under jit, where the calls of `make` are not counted."""

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

    graphdef, _ = nnx.split(nnx.eval_shape(make))
    target = jax.tree.map(place, jax.jit(lambda: nnx.state(make()))())
    with ocp.StandardCheckpointer() as checkpointer:
        return nnx.merge(graphdef, checkpointer.restore(path, target))
