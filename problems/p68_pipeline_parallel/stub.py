"""Problem 68: a pipeline of stages. The page is in pages/p68_pipeline_parallel.md."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int, PyTree


def forward_schedule(stages: int, microbatches: int) -> Int[Array, "ticks stages"]:
    """The microbatch on which each stage works in each tick of the forward
    pass; -1 where it is idle."""
    raise NotImplementedError


def pipeline_step(
    stage: Callable[[PyTree, Float[Array, "B D"]], Float[Array, "B D"]],
    loss: Callable[[Float[Array, "B D"], Float[Array, "B D"]], Float[Array, ""]],
    parameters: PyTree,
    x: Float[Array, "M B D"],
    targets: Float[Array, "M B D"],
    mesh: Mesh,
) -> tuple[Float[Array, ""], PyTree]:
    """The mean loss over M microbatches, and its gradients. Device s of the axis
    `stage` has the parameters of stage s.

    The arrays of `parameters` and of the gradients have a first axis over the
    stages, split over `stage`.
    """
    raise NotImplementedError
