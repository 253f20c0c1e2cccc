"""Problem 22: everything in eighths. The page is in pages/p22_fsdp.md."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

# Once problem 07 is done: from p07_next_token_loss import next_token_loss


def fsdp_spec(shape: tuple[int, ...], devices: int) -> PartitionSpec:
    """The longest axis that `devices` divides (the first of equally long ones) over `data`; no axis if none divides."""
    raise NotImplementedError


def create_sharded(
    make: Callable[[], tuple[nnx.Module, nnx.Optimizer]], mesh: Mesh
) -> tuple[nnx.Module, nnx.Optimizer]:
    """What `make()` would return, each array cut by `fsdp_spec` from its birth."""
    raise NotImplementedError


@nnx.jit
def fsdp_step(
    model: nnx.Module, optimizer: nnx.Optimizer, token_ids: Int[Array, "B T"], pad_id: int
) -> Float[Array, ""]:
    """Updates model and optimizer in place, gives up the old state, returns the loss before the update, a scalar."""
    raise NotImplementedError
