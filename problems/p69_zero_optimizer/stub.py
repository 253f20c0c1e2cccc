"""Problem 69: a split optimizer. The page is in pages/p69_zero_optimizer.md."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, PyTree


def zero_state(parameters: PyTree, mesh: Mesh) -> dict[str, Array]:
    """The state before the first step: `count` (), int32, and the moments `m` and `v`
    (N,), split over `data`.

    N is the number of all parameters, rounded up to a multiple of the number of
    devices.
    """
    raise NotImplementedError


def zero_step(
    loss_sum: Callable[
        [PyTree, Int[Array, "b T"]],
        tuple[Float[Array, ""], Int[Array, ""]],
    ],
    parameters: PyTree,
    state: dict[str, Array],
    token_ids: Int[Array, "B T"],
    mesh: Mesh,
    learning_rate: float,
    max_norm: float,
) -> tuple[PyTree, dict[str, Array], Float[Array, ""], Float[Array, ""]]:
    """One step of Adam: the new parameters, the new state, the mean loss, and the norm
    of the gradient before clipping.

    B is split over `data`, and so are the moments. The parameters are replicated.
    `loss_sum(parameters, rows)` returns (sum of the losses, number of targets).
    """
    raise NotImplementedError
