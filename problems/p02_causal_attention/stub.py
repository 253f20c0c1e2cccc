"""Problem 02: one head of causal self-attention.

The page is in pages/p02_causal_attention.md.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def causal_attention(
    q: Float[Array, "T K"],
    k: Float[Array, "T K"],
    v: Float[Array, "T K"],
) -> Float[Array, "T K"]:
    """One head of attention, in which each position sees itself and
    the positions before it.

    q, k, v: (T, K), one row per position. Returns (T, K).
    """
    raise NotImplementedError
