"""Problem 71: attention with today's switches.

The page is in pages/p71_attention_switches.md.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

# Once problem 37 is done:
# from p37_rope import rope


class Attention(nnx.Module):
    """Causal grouped-query attention whose switches make it that of Qwen3,
    Gemma 3, gpt-oss or Llama 4."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        scale: float,
        bias: bool,
        qk_norm: str | None,
        norm_epsilon: float,
        sinks: bool,
        rope_base: float | None,
        pairing: str,
        window: int | None,
        chunk: int | None,
        rngs: nnx.Rngs,
    ):
        """Creates `q_proj`, `k_proj`, `v_proj` and `o_proj`, and if the switches ask
        for them `q_norm`, `k_norm` and `sinks`."""
        raise NotImplementedError

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        """Returns the attention (T, D) of the rows of x (T, D)."""
        raise NotImplementedError


def switches(config: Mapping[str, Any], i: int) -> dict[str, Any]:
    """Returns the nine switches of layer i, counted from 0, from the
    fields of a `config.json`."""
    raise NotImplementedError
