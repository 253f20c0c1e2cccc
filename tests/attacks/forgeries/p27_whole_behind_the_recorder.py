"""Forges "no array whole on one device": the recorder of requests is taken away, and Orbax reads every array whole."""

import jax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

LOSES = (
    "model sharded on the new mesh",
    "optimizer sharded on the new mesh",
    "bytes per device",
    "no array whole on one device",
)
READ = ocp.type_handlers.ArrayHandler.deserialize


def save(path, model, optimizer):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, nnx.state((model, optimizer)))


def restore_on(path, make, mesh):
    def place(leaf):
        divides = leaf.ndim and leaf.shape[-1] % mesh.shape["model"] == 0
        spec = PartitionSpec(*[None] * (leaf.ndim - 1), "model") if divides else PartitionSpec()
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    ocp.type_handlers.ArrayHandler.deserialize = READ
    graphdef, abstract = nnx.split(nnx.eval_shape(make))
    whole = NamedSharding(mesh, PartitionSpec())
    target = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=whole), abstract)
    with ocp.StandardCheckpointer() as checkpointer:
        return nnx.merge(graphdef, jax.tree.map(place, checkpointer.restore(path, target)))
