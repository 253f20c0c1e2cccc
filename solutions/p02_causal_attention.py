"""Problem 02, reference: one head of causal self-attention."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def causal_attention(q: Float[Array, "T K"], k: Float[Array, "T K"], v: Float[Array, "T K"]) -> Float[Array, "T K"]:
    """A weighted mean of the values up to each position (Vaswani et al. 2017, equation 1, with a causal mask)."""
    T, K = q.shape
    scores_TS = q @ k.T / jnp.sqrt(K)
    mask_TS = jnp.tril(jnp.ones((T, T), bool))
    weights_TS = jax.nn.softmax(jnp.where(mask_TS, scores_TS, -1e9), axis=-1)
    return weights_TS @ v
