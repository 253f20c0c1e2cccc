"""Problem 41: load GPT-2 in the format of Hugging Face.

The page is in pages/p41_load_gpt2.md.
"""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

# from p03_causal_mha import CausalMHA


class GPT2(nnx.Module):
    """MiniGPT with GPT-2's GELU, and layer norms with an epsilon of 1e-5."""

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
        raise NotImplementedError

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        """Token ids (T,) to logits (T, V)."""
        raise NotImplementedError


def load_gpt2(tensors: Mapping[str, np.ndarray], model: nnx.Module) -> None:
    """Copies the arrays of a GPT-2 into a model with the parameters of MiniGPT, in
    place.

    Raises KeyError if an array is missing, and ValueError if the
    file does not fit the model.
    """
    raise NotImplementedError
