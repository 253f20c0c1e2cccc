"""Forges a placement: every array is on another mesh, of the same devices in reversed order."""

import jax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

LOSES = ("model sharded on the new mesh", "optimizer sharded on the new mesh")


def save(path, model, optimizer):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, nnx.state((model, optimizer)))


def restore_on(path, make, mesh):
    graphdef, abstract = nnx.split(nnx.eval_shape(make))
    other = Mesh(mesh.devices[::-1, ::-1], mesh.axis_names, axis_types=mesh.axis_types)

    def placed(leaf):
        divides = leaf.ndim and leaf.shape[-1] % mesh.shape["model"] == 0
        spec = PartitionSpec(*[None] * (leaf.ndim - 1), "model") if divides else PartitionSpec()
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(other, spec))

    with ocp.StandardCheckpointer() as checkpointer:
        return nnx.merge(graphdef, checkpointer.restore(path, jax.tree.map(placed, abstract)))
