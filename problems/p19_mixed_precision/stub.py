"""Problem 19: mixed precision. The page is in pages/p19_mixed_precision.md."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

# Once problem 07 is done: from p07_next_token_loss import next_token_loss


class MixedLM(nnx.Module):
    """A language model of one block with one head, and a tied output head. Float32
    parameters, bfloat16 matrix products."""

    def __init__(self, vocab_size: int, d_model: int, d_ff: int, rngs: nnx.Rngs):
        """Builds `embed`, `ln1`, `q_proj`, `k_proj`, `v_proj`, `out_proj`,
        `ln2`, `ff1`, `ff2`, `ln_f`."""
        raise NotImplementedError

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        """token_ids: (T,). Returns logits, (T, V), float32."""
        raise NotImplementedError


def mixed_loss(
    model: MixedLM,
    token_ids: Int[Array, "T"],
    pad_id: int,
) -> Float[Array, ""]:
    """The mean next-token loss of the model on token_ids, (T,).
    Returns a scalar, float32."""
    raise NotImplementedError
