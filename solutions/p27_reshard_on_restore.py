"""Problem 27, reference: a checkpoint restored onto another mesh."""

from collections.abc import Callable

import jax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def save(path: str, model: nnx.Module, optimizer: nnx.Optimizer) -> None:
    """Writes the whole state of both. Each device writes the pieces that it holds."""
    state = nnx.state((model, optimizer))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, state)


def restore_on(
    path: str, make: Callable[[], tuple[nnx.Module, nnx.Optimizer]], mesh: Mesh
) -> tuple[nnx.Module, nnx.Optimizer]:
    """Puts the new shardings into the abstract state, so that Orbax reads each piece to its device."""
    graphdef, abstract = nnx.split(nnx.eval_shape(make))

    def placed(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        divides = leaf.ndim > 0 and leaf.shape[-1] % mesh.shape["model"] == 0
        spec = PartitionSpec(*[None] * (leaf.ndim - 1), "model") if divides else PartitionSpec()
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec))

    target = jax.tree.map(placed, abstract)
    with ocp.StandardCheckpointer() as checkpointer:
        state = checkpointer.restore(path, target)
    model, optimizer = nnx.merge(graphdef, state)
    return model, optimizer
