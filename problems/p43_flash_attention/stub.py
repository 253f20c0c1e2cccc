"""Problem 43: flash attention. The page is in pages/p43_flash_attention.md."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def flash_attention(
    q: Float[Array, "T K"],
    k: Float[Array, "T K"],
    v: Float[Array, "T K"],
    block: int,
    causal: bool = True,
    return_lse: bool = False,
) -> Float[Array, "T K"] | tuple[Float[Array, "T K"], Float[Array, "T"]]:
    """Equals causal_attention(q, k, v), with the scores of `block` queries
    and `block` keys at a time.

    Without `causal`, every query sees every key. q, k, v: (T, K). Returns
    (T, K). With `return_lse`, returns this and the log-sum-exp of the scores
    that each query sees, (T,).
    """
    raise NotImplementedError
