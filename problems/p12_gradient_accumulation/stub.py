"""Problem 12: gradient accumulation.

The page is in pages/p12_gradient_accumulation.md.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

# When problem 11 is done: from p11_gradient_clipping import clip_by_global_norm


def accumulated_gradients(
    loss_sum: Callable[
        [PyTree, Int[Array, "b T"]],
        tuple[Float[Array, ""], Int[Array, ""]],
    ],
    parameters: PyTree,
    token_ids: Int[Array, "B T"],
    microbatches: int,
    max_norm: float,
) -> tuple[Float[Array, ""], PyTree, Float[Array, ""]]:
    """The triple (mean loss of the whole batch, its gradients clipped to `max_norm`,
    their norm before clipping).

    `loss_sum(parameters, rows)` returns (sum of the losses, number of targets). Call it
    on B / microbatches rows at a time, and hold the activations of only one microbatch.
    """
    raise NotImplementedError
