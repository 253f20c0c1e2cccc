"""Problem 40: a modern GPT. The page is in pages/p40_modern_gpt.md."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

# Once problems 38 and 39 are done:
# from p38_rms_norm_swiglu import RMSNorm, SwiGLU
# from p39_grouped_query_attention import GQA


class ModernGPT(nnx.Module):
    """A GPT with rotary positions, RMSNorm, SwiGLU, grouped queries, and
    a window in most layers."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        d_ff: int,
        num_layers: int,
        window: int,
        full_every: int,
        rope_base: float,
        norm_epsilon: float,
        rngs: nnx.Rngs,
    ):
        """Creates `embed`, `blocks` (each with `norm1`, `attn`,
        `norm2` and `ff`) and `norm_f`."""
        raise NotImplementedError

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        """Returns logits (T, V) for token_ids (T,)."""
        raise NotImplementedError
