"""Problem 05, reference: a transformer block, pre-LN."""

from flax import nnx
from jaxtyping import Array, Float
from p03_causal_mha import CausalMHA


class GPTBlock(nnx.Module):
    """Attention, then a feed-forward network, each on a normalised copy and added to what came in (GPT-2's order)."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, rngs: nnx.Rngs):
        self.ln1 = nnx.LayerNorm(d_model, rngs=rngs)
        self.attn = CausalMHA(d_model, num_heads, rngs=rngs)
        self.ln2 = nnx.LayerNorm(d_model, rngs=rngs)
        self.ff1 = nnx.Linear(d_model, d_ff, rngs=rngs)
        self.ff2 = nnx.Linear(d_ff, d_model, rngs=rngs)

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        x = x + self.attn(self.ln1(x))
        return x + self.ff2(nnx.relu(self.ff1(self.ln2(x))))
