"""Accepts floats for all numbers; uses `.value` and another order of constructor arguments."""

import jax
import jax.numpy as jnp
from flax import nnx


class CausalMHA(nnx.Module):
    def __init__(self, d_model, num_heads, *, rngs):
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.q_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.k_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.v_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.out_proj = nnx.Linear(d_model, d_model, rngs=rngs)

    def __call__(self, x):
        t, d = x.shape
        q, k, v = (
            p(x).reshape(t, self.num_heads, self.head_dim).transpose(1, 0, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        scores = jnp.matmul(q, k.transpose(0, 2, 1)) / jnp.sqrt(self.head_dim)
        scores = jnp.where(jnp.tril(jnp.ones((t, t), dtype=bool)), scores, -1e9)
        out = jnp.matmul(jax.nn.softmax(scores, axis=-1), v)
        return self.out_proj(out.transpose(1, 0, 2).reshape(t, d))


class GPTBlock(nnx.Module):
    def __init__(self, d_model, num_heads, d_ff, *, rngs):
        self.ln1 = nnx.LayerNorm(d_model, rngs=rngs)
        self.attn = CausalMHA(d_model, num_heads, rngs=rngs)
        self.ln2 = nnx.LayerNorm(d_model, rngs=rngs)
        self.ff1 = nnx.Linear(d_model, d_ff, rngs=rngs)
        self.ff2 = nnx.Linear(d_ff, d_model, rngs=rngs)

    def __call__(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.ff2(jax.nn.relu(self.ff1(self.ln2(x))))


class MiniGPT(nnx.Module):
    def __init__(self, vocab_size, context, layers, d_model, num_heads, d_ff, *, rngs):
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.pos_embed = nnx.Param(jnp.zeros((context, d_model)))
        self.blocks = nnx.List([GPTBlock(d_model, num_heads, d_ff, rngs=rngs) for _ in range(layers)])
        self.ln_f = nnx.LayerNorm(d_model, rngs=rngs)

    def __call__(self, token_ids):
        x = self.embed(token_ids) + self.pos_embed.value[: token_ids.shape[0]]
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x) @ self.embed.embedding.value.T


def mini_gpt_forward(seed, token_ids, vocab_size, d_model, num_heads, d_ff, num_layers):
    token_ids = token_ids.astype(jnp.int32)
    model = MiniGPT(
        int(vocab_size), token_ids.shape[0], int(num_layers), int(d_model), int(num_heads), int(d_ff),
        rngs=nnx.Rngs(int(seed)),
    )  # fmt: skip
    return model(token_ids).flatten()
