"""Masks by `tril` and `triu`, and a nested list of kinds of layers."""

import jax.numpy as jnp
from flax import nnx
from p38_rms_norm_swiglu import RMSNorm, SwiGLU
from p39_grouped_query_attention import GQA


class Block(nnx.Module):
    def __init__(self, sizes, full, rngs):
        d, h, g, f, base, eps = sizes
        self.full = full
        self.ff = SwiGLU(d, f, rngs)
        self.norm2 = RMSNorm(d, eps, rngs)
        self.attn = GQA(d, h, g, base, rngs=rngs)
        self.norm1 = RMSNorm(d, eps, rngs)

    def __call__(self, x, full, local):
        mid = self.attn(self.norm1(x), full if self.full else local) + x
        return self.ff(self.norm2(mid)) + mid


class ModernGPT(nnx.Module):
    def __init__(
        self, vocab_size, d_model, num_heads, num_kv_heads, d_ff, num_layers, window, full_every, rope_base,
        norm_epsilon, rngs,
    ):  # fmt: skip
        self.window = window
        sizes = (d_model, num_heads, num_kv_heads, d_ff, rope_base, norm_epsilon)
        self.blocks = nnx.List([Block(sizes, i % full_every == full_every - 1, rngs) for i in range(num_layers)])
        self.norm_f = RMSNorm(d_model, norm_epsilon, rngs)
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)

    def __call__(self, token_ids):
        full = jnp.tril(jnp.ones((len(token_ids),) * 2, bool))
        local = jnp.triu(full, k=1 - self.window)
        x = self.embed.embedding[token_ids]
        for block in self.blocks:
            x = block(x, full, local)
        return jnp.matmul(self.norm_f(x), self.embed.embedding.T)
