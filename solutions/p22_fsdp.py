"""Problem 22, reference: fully sharded data parallelism."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int
from p07_next_token_loss import next_token_loss


def fsdp_spec(shape: tuple[int, ...], devices: int) -> PartitionSpec:
    """Shards the longest divisible axis over `data`."""
    axes = [axis for axis, size in enumerate(shape) if size % devices == 0]
    cut = max(axes, key=lambda axis: shape[axis], default=None)
    return PartitionSpec(*["data" if axis == cut else None for axis in range(len(shape))])


def create_sharded(
    make: Callable[[], tuple[nnx.Module, nnx.Optimizer]], mesh: Mesh
) -> tuple[nnx.Module, nnx.Optimizer]:
    """Finds the shapes first, then creates every array sharded."""
    graphdef, abstract = nnx.split(nnx.eval_shape(make))
    shardings = jax.tree.map(lambda leaf: NamedSharding(mesh, fsdp_spec(leaf.shape, mesh.shape["data"])), abstract)
    state = jax.jit(lambda: nnx.state(make()), out_shardings=shardings)()
    model, optimizer = nnx.merge(graphdef, state)
    return model, optimizer


@nnx.jit(donate_argnums=(0, 1))
def fsdp_step(
    model: nnx.Module, optimizer: nnx.Optimizer, token_ids: Int[Array, "B T"], pad_id: int
) -> Float[Array, ""]:
    """The train step of problem 08. The shardings of its inputs make it FSDP (Rajbhandari et al. 2020, ZeRO)."""

    def mean_loss(model: nnx.Module) -> Float[Array, ""]:
        logits_BTV = jax.vmap(model)(token_ids)
        return jnp.mean(jax.vmap(next_token_loss, (0, 0, None))(logits_BTV, token_ids, pad_id))

    loss, gradients = nnx.value_and_grad(mean_loss)(model)
    optimizer.update(model, gradients)
    return loss
