"""Problem 03: causal multi-head attention. The page is in pages/p03_causal_mha.md."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class CausalMHA(nnx.Module):
    """Multi-head self-attention in which no position sees a later one."""

    def __init__(self, d_model: int, num_heads: int, rngs: nnx.Rngs):
        """Creates `q_proj`, `k_proj`, `v_proj` and `out_proj`, each an
        nnx.Linear(d_model, d_model)."""
        raise NotImplementedError

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        """Returns (T, D) for x (T, D), one row per position."""
        raise NotImplementedError
