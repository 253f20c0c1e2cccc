"""Problem 02: one head of causal self-attention. The page is in pages/p02_causal_attention.md."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def causal_attention(q: Float[Array, "T K"], k: Float[Array, "T K"], v: Float[Array, "T K"]) -> Float[Array, "T K"]:
    """softmax(q kᵀ / √K, each position seeing itself and those before it) v.

    q, k, v: (T, K), one row a position. Returns (T, K).
    """
    raise NotImplementedError
