"""The module of problem 01 is inherited, so its tables keep their names."""

import jax.numpy as jnp
from flax import nnx
from p01_token_embedding import TokenAndPositionEmbed
from p05_gpt_block import GPTBlock


class MiniGPT(TokenAndPositionEmbed):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_T, rngs):
        super().__init__(vocab_size, max_T, d_model, rngs=rngs)
        self.blocks = nnx.List([GPTBlock(d_model, num_heads, d_ff, rngs=rngs) for _ in range(num_layers)])
        self.ln_f = nnx.LayerNorm(d_model, rngs=rngs)

    def __call__(self, token_ids):
        x = super().__call__(token_ids)
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x) @ self.embed.embedding[...].T


def mini_gpt_forward(seed, token_ids, vocab_size, d_model, num_heads, d_ff, num_layers):
    token_ids = jnp.asarray(token_ids).astype(jnp.int32)
    model = MiniGPT(
        int(vocab_size), int(d_model), int(num_heads), int(d_ff), int(num_layers), max_T=len(token_ids),
        rngs=nnx.Rngs(int(seed)),
    )  # fmt: skip
    return model(token_ids).reshape(-1)
