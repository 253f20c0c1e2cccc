"""Problem 06, reference: the complete model."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int
from p05_gpt_block import GPTBlock


class MiniGPT(nnx.Module):
    """A GPT: embeddings, blocks, a final norm, and a head tied to the token embedding (Press and Wolf 2017)."""

    def __init__(
        self, vocab_size: int, d_model: int, num_heads: int, d_ff: int, num_layers: int, max_T: int, rngs: nnx.Rngs
    ):
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.pos_embed = nnx.Param(jnp.zeros((max_T, d_model)))
        self.blocks = nnx.List([GPTBlock(d_model, num_heads, d_ff, rngs=rngs) for _ in range(num_layers)])
        self.ln_f = nnx.LayerNorm(d_model, rngs=rngs)

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        x_TD = self.embed(token_ids) + self.pos_embed[: len(token_ids)]
        for block in self.blocks:
            x_TD = block(x_TD)
        return self.ln_f(x_TD) @ self.embed.embedding[...].T


def mini_gpt_forward(
    seed: int,
    token_ids: Int[Array, "T"],
    vocab_size: int,
    d_model: int,
    num_heads: int,
    d_ff: int,
    num_layers: int,
) -> Float[Array, "T*V"]:
    """The flattened logits of a new model on one story. The numbers may be floats."""
    token_ids = jnp.asarray(token_ids).astype(jnp.int32)
    rngs = nnx.Rngs(int(seed))
    model = MiniGPT(
        int(vocab_size), int(d_model), int(num_heads), int(d_ff), int(num_layers), max_T=len(token_ids), rngs=rngs
    )
    return model(token_ids).reshape(-1)
