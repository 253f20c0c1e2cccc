"""Forges "no array whole on one device": each array goes through one device on its own, so that all of them are never there."""

import jax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

LOSES = ("no array whole on one device",)


def save(path, model, optimizer):
    with ocp.StandardCheckpointer() as checkpointer:
        for number, leaf in enumerate(jax.tree.leaves(nnx.state((model, optimizer)))):
            checkpointer.save(f"{path}/{number}", [leaf])
            checkpointer.wait_until_finished()


def restore_on(path, make, mesh):
    graphdef, abstract = nnx.split(nnx.eval_shape(make))
    one, leaves = SingleDeviceSharding(mesh.devices.flat[0]), []
    with ocp.StandardCheckpointer() as checkpointer:
        for number, leaf in enumerate(jax.tree.leaves(abstract)):
            divides = leaf.ndim and leaf.shape[-1] % mesh.shape["model"] == 0
            spec = PartitionSpec(*[None] * (leaf.ndim - 1), "model") if divides else PartitionSpec()
            target = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=one)]
            (array,) = checkpointer.restore(f"{path}/{number}", target)
            leaves.append(jax.device_put(array, NamedSharding(mesh, spec)))
    return nnx.merge(graphdef, jax.tree.unflatten(jax.tree.structure(abstract), leaves))
