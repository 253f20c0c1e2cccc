"""Problem 21: a sharded train step. The page is in pages/p21_sharded_train_step.md."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

# Once problem 07 is done: from p07_next_token_loss import next_token_loss


def shard_state(node: nnx.Module, mesh: Mesh) -> None:
    """Shards the arrays of a model or an optimizer over the mesh, in place.

    The last axis of every array is sharded over the mesh axis
    `model`; scalars are replicated.
    """
    raise NotImplementedError


def shard_batch(token_ids: Int[Array, "B T"], mesh: Mesh) -> Int[Array, "B T"]:
    """token_ids: (B, T). Returns the same batch with B sharded over the mesh axis
    `data`."""
    raise NotImplementedError


# Compiled, as in problem 08
def sharded_train_step(
    model: nnx.Module,
    optimizer: nnx.Optimizer,
    token_ids: Int[Array, "B T"],
    pad_id: int,
) -> Float[Array, ""]:
    """Updates model and optimizer in place. Returns the loss before the update, a
    scalar."""
    raise NotImplementedError
