"""Problem 17: layers by scan. The page is in pages/p17_scan_layers.md."""

import jax
from flax import nnx
from jaxtyping import Array, Float

# Once problem 05 is done: from p05_gpt_block import GPTBlock


class LayerStack(nnx.Module):
    """L GPT blocks whose parameters are stacked along a first axis L,
    run one after the other."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        rngs: nnx.Rngs,
    ):
        """Builds `blocks`: one GPTBlock whose leaves have a leading
        axis of size `num_layers`."""
        raise NotImplementedError

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        """x: (T, D). Returns (T, D)."""
        raise NotImplementedError
