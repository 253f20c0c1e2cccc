"""Problem 75: two tokens ahead. The page is in pages/p75_multi_token.md."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

# Once problems 38, 39 and 52 are done:
# from p38_rms_norm_swiglu import RMSNorm, SwiGLU
# from p39_grouped_query_attention import GQA
# from p52_speculative_decoding import speculative_step


class MultiTokenGPT(nnx.Module):
    """A modern GPT, and a module beside it that predicts one token further."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        d_ff: int,
        num_layers: int,
        rope_base: float,
        norm_epsilon: float,
        mtp_after_norm: bool,
        rngs: nnx.Rngs,
    ):
        """Creates `embed`, `blocks` (each with `norm1`, `attn`, `norm2` and `ff`),
        `norm_f`, and `mtp` with `enorm`, `hnorm`, `eh_proj`, `block` and `norm`."""
        raise NotImplementedError

    def run(
        self,
        token_ids: Int[Array, "T"],
    ) -> tuple[Float[Array, "T V"], Float[Array, "T D"]]:
        """Returns the logits of the main model (T, V), and the hidden states
        that `mtp` reads (T, D)."""
        raise NotImplementedError

    def ahead(
        self,
        hidden: Float[Array, "T D"],
        next_ids: Int[Array, "T"],
    ) -> Float[Array, "T V"]:
        """Returns the logits (T, V) of `mtp`, where `next_ids` (T,) are the tokens
        after those of `hidden` (T, D)."""
        raise NotImplementedError

    def __call__(
        self,
        token_ids: Int[Array, "T"],
    ) -> tuple[Float[Array, "T V"], Float[Array, "T-1 V"]]:
        """Returns the logits of the next token (T, V), and of the
        token after it (T - 1, V)."""
        raise NotImplementedError


def mtp_loss(
    logits: Float[Array, "T V"],
    ahead: Float[Array, "T-1 V"],
    token_ids: Int[Array, "T"],
    is_target: Bool[Array, "T"],
    weight: float,
) -> Float[Array, ""]:
    """Returns the mean loss of the next token plus `weight` times that of the
    token after it, in nats."""
    raise NotImplementedError


def write(
    model: Any,
    prompt: list[int],
    count: int,
    uniforms: Float[np.ndarray, "R 3"],
) -> list[int]:
    """Returns `count` tokens after `prompt`. Row r of `uniforms` (R, 3)
    is for run r of the model."""
    raise NotImplementedError
