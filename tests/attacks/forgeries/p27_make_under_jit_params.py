"""Forges "no array whole on one device": draws the parameters whole under jit, but not the variable that is not trained."""

import jax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

LOSES = ("no array whole on one device",)


def save(path, model, optimizer):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, nnx.state((model, optimizer)))


def restore_on(path, make, mesh):
    def placed(leaf):
        divides = leaf.ndim and leaf.shape[-1] % mesh.shape["model"] == 0
        spec = PartitionSpec(*[None] * (leaf.ndim - 1), "model") if divides else PartitionSpec()
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec))

    graphdef, abstract = nnx.split(nnx.eval_shape(make))
    jax.jit(lambda: (nnx.state(make()[0], nnx.Param), nnx.state(make()[1])))()
    with ocp.StandardCheckpointer() as checkpointer:
        return nnx.merge(graphdef, checkpointer.restore(path, jax.tree.map(placed, abstract)))
