"""Problem 49: ring attention. The page is in pages/p49_ring_attention.md."""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float


def ring_attention(
    q: Float[Array, "T K"], k: Float[Array, "T K"], v: Float[Array, "T K"], mesh: Mesh
) -> Float[Array, "T K"]:
    """Causal attention of one head. q, k, v and the result are split over `context`
    along T.

    Keys and values travel from device to device. No device holds more than a
    few blocks of them at once.
    """
    raise NotImplementedError
