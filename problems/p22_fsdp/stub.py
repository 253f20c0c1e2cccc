"""Problem 22: fully sharded data parallelism. The page is in pages/p22_fsdp.md."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

# Once problem 07 is done: from p07_next_token_loss import next_token_loss


def fsdp_spec(shape: tuple[int, ...], devices: int) -> PartitionSpec:
    """Shards the longest axis that `devices` divides, the first of equally long ones,
    over `data`. None if none divides."""
    raise NotImplementedError


def create_sharded(
    make: Callable[[], tuple[nnx.Module, nnx.Optimizer]], mesh: Mesh
) -> tuple[nnx.Module, nnx.Optimizer]:
    """Returns what `make()` would return, with each array created
    already sharded by `fsdp_spec`."""
    raise NotImplementedError


# Compiled, as in problem 08
def fsdp_step(
    model: nnx.Module,
    optimizer: nnx.Optimizer,
    token_ids: Int[Array, "B T"],
    pad_id: int,
) -> Float[Array, ""]:
    """Updates model and optimizer in place. Returns the loss before the update, a
    scalar."""
    raise NotImplementedError
