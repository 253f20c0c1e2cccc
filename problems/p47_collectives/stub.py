"""Problem 47: collectives by hand. The page is in pages/p47_collectives.md."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int, PyTree


def tensor_parallel_mlp(
    x: Float[Array, "T D"],
    w1: Float[Array, "D F"],
    b1: Float[Array, " F"],
    w2: Float[Array, "F D"],
    b2: Float[Array, " D"],
    mesh: Mesh,
) -> Float[Array, "T D"]:
    """relu(x w1 + b1) w2 + b2. The axis F is split over `model`; x and
    the result are replicated."""
    raise NotImplementedError


def sequence_parallel_mlp(
    x: Float[Array, "T D"],
    w1: Float[Array, "D F"],
    b1: Float[Array, " F"],
    w2: Float[Array, "F D"],
    b2: Float[Array, " D"],
    mesh: Mesh,
) -> Float[Array, "T D"]:
    """The same function. x and the result are split over `model` along T."""
    raise NotImplementedError


def data_parallel_gradient(
    loss_sum: Callable[
        [PyTree, Int[Array, "b T"]],
        tuple[Float[Array, ""], Int[Array, ""]],
    ],
    parameters: PyTree,
    token_ids: Int[Array, "B T"],
    mesh: Mesh,
) -> tuple[Float[Array, ""], PyTree]:
    """The pair (mean loss over all targets of the batch, its
    gradients). B is split over `data`.

    `loss_sum(parameters, rows)` returns (sum of the losses, number of targets).
    """
    raise NotImplementedError
