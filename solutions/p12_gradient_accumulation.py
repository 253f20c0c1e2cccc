"""Problem 12, reference: gradient accumulation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree
from p11_gradient_clipping import clip_by_global_norm


def accumulated_gradients(
    loss_sum: Callable[[PyTree, Int[Array, "b T"]], tuple[Float[Array, ""], Int[Array, ""]]],
    parameters: PyTree,
    token_ids: Int[Array, "B T"],
    microbatches: int,
    max_norm: float,
) -> tuple[Float[Array, ""], PyTree, Float[Array, ""]]:
    """Adds up the sums of one microbatch at a time, divides once, and clips at the end."""
    parts = token_ids.reshape(microbatches, -1, token_ids.shape[1])
    gradient = jax.value_and_grad(loss_sum, has_aux=True)

    def add(sums: PyTree, part: Int[Array, "b T"]) -> tuple[PyTree, None]:
        (loss, count), gradients = gradient(parameters, part)
        return jax.tree.map(jnp.add, sums, (loss, count, gradients)), None

    zeros = (jnp.float32(0), jnp.int32(0), jax.tree.map(jnp.zeros_like, parameters))
    (loss, count, gradients), _ = jax.lax.scan(add, zeros, parts)
    gradients, norm = clip_by_global_norm(jax.tree.map(lambda g: g / count, gradients), max_norm)
    return loss / count, gradients, norm
