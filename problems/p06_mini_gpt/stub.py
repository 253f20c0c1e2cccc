"""Problem 06: the complete model. The page is in pages/p06_mini_gpt.md."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

# Once problem 05 is done: from p05_gpt_block import GPTBlock


class MiniGPT(nnx.Module):
    """A GPT: embeddings, blocks, a final norm and a head."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        max_T: int,
        rngs: nnx.Rngs,
    ):
        """Creates `embed`, `pos_embed` (zeros, (max_T, d_model)), `blocks` and
        `ln_f`."""
        raise NotImplementedError

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        """Returns logits (T, V) for token_ids (T,)."""
        raise NotImplementedError


def mini_gpt_forward(
    seed: int,
    token_ids: Int[Array, "T"],
    vocab_size: int,
    d_model: int,
    num_heads: int,
    d_ff: int,
    num_layers: int,
) -> Float[Array, "T*V"]:
    """The logits (T * V,) of a new model on one story. The model is created from
    nnx.Rngs(seed) with max_T = T."""
    raise NotImplementedError
