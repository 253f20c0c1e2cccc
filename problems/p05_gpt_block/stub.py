"""Problem 05: a pre-LN transformer block. The page is in pages/p05_gpt_block.md."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

# Once problem 03 is done: from p03_causal_mha import CausalMHA


class GPTBlock(nnx.Module):
    """A pre-LN block: attention, then a feed-forward network."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, rngs: nnx.Rngs):
        """Creates `ln1`, `attn`, `ln2`, `ff1` (d_model to d_ff) and
        `ff2` (d_ff to d_model)."""
        raise NotImplementedError

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        """Returns (T, D) for x (T, D)."""
        raise NotImplementedError
