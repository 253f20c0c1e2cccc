"""Creates the blocks before the embeddings, with a named rngs stream, a jitted call and an einsum head."""

import jax
import jax.numpy as jnp
from flax import nnx


class CausalMHA(nnx.Module):
    def __init__(self, width, heads, rngs):
        self.out_proj, self.q_proj, self.k_proj, self.v_proj = (nnx.Linear(width, width, rngs=rngs) for _ in range(4))
        self.heads = heads

    def __call__(self, x):
        q, k, v = (f(x).reshape(x.shape[0], self.heads, -1) for f in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape))


class GPTBlock(nnx.Module):
    def __init__(self, width, heads, inner, rngs):
        self.ff1, self.ff2 = nnx.Linear(width, inner, rngs=rngs), nnx.Linear(inner, width, rngs=rngs)
        self.attn = CausalMHA(width, heads, rngs)
        self.ln1, self.ln2 = nnx.LayerNorm(width, rngs=rngs), nnx.LayerNorm(width, rngs=rngs)

    def __call__(self, x):
        x += self.attn(self.ln1(x))
        return x + self.ff2(nnx.relu(self.ff1(self.ln2(x))))


class MiniGPT(nnx.Module):
    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, max_T, rngs):
        self.ln_f = nnx.LayerNorm(d_model, rngs=rngs)
        self.blocks = nnx.List()
        for _ in range(num_layers):
            self.blocks.append(GPTBlock(d_model, num_heads, d_ff, rngs))
        self.pos_embed = nnx.Param(jnp.zeros((max_T, d_model)))
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)

    def __call__(self, ids):
        x = self.embed(ids) + jax.lax.dynamic_slice_in_dim(self.pos_embed[...], 0, len(ids))
        for block in self.blocks:
            x = block(x)
        return jnp.einsum("td,vd->tv", self.ln_f(x), self.embed.embedding[...])


def mini_gpt_forward(seed, token_ids, vocab_size, d_model, num_heads, d_ff, num_layers):
    model = MiniGPT(vocab_size, d_model, num_heads, d_ff, num_layers, len(token_ids), nnx.Rngs(params=seed))
    return jnp.ravel(nnx.jit(lambda model, ids: model(ids))(model, token_ids))
