"""Problem 21, reference: a sharded train step."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int
from p07_next_token_loss import next_token_loss


def shard_state(node: nnx.Module, mesh: Mesh) -> None:
    """Shards the last axis of every array of a model or an optimizer over `model`, in place."""

    def place(leaf: Array) -> Array:
        spec = PartitionSpec(*[None] * (leaf.ndim - 1), "model") if leaf.ndim else PartitionSpec()
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    nnx.update(node, jax.tree.map(place, nnx.state(node)))


def shard_batch(token_ids: Int[Array, "B T"], mesh: Mesh) -> Int[Array, "B T"]:
    """Shards the stories of a batch over `data`. Each story stays whole."""
    return jax.device_put(token_ids, NamedSharding(mesh, PartitionSpec("data", None)))


@nnx.jit(donate_argnums=(0, 1))
def sharded_train_step(
    model: nnx.Module, optimizer: nnx.Optimizer, token_ids: Int[Array, "B T"], pad_id: int
) -> Float[Array, ""]:
    """The train step of problem 08 with the old state donated. The partitioner decides what each device computes."""

    def mean_loss(model: nnx.Module) -> Float[Array, ""]:
        logits_BTV = jax.vmap(model)(token_ids)
        return jnp.mean(jax.vmap(next_token_loss, (0, 0, None))(logits_BTV, token_ids, pad_id))

    loss, gradients = nnx.value_and_grad(mean_loss)(model)
    optimizer.update(model, gradients)
    return loss
