"""Problem 74: the gated delta rule. The page is in pages/p74_gated_delta.md."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def delta_rule(
    q: Float[Array, "T K"],
    k: Float[Array, "T K"],
    v: Float[Array, "T M"],
    beta: Float[Array, "T"],
    log_alpha: Float[Array, "T"],
    state: Float[Array, "K M"],
    chunk: int,
) -> tuple[Float[Array, "T M"], Float[Array, "K M"]]:
    """The pair (out, state): the outputs of all positions, and the
    state after the last one.

    Before the first position, the state is `state`. `chunk`
    positions are computed together.
    """
    raise NotImplementedError
