"""The blocks run by a scan, with the mask of each layer chosen by `where`."""

import jax
import jax.numpy as jnp
from flax import nnx
from p38_rms_norm_swiglu import RMSNorm, SwiGLU
from p39_grouped_query_attention import GQA


class Layer(nnx.Module):
    def __init__(self, d, h, g, f, base, eps, rngs):
        self.norm1, self.norm2 = RMSNorm(d, eps, rngs=rngs), RMSNorm(d, eps, rngs=rngs)
        self.attn, self.ff = GQA(d, h, g, base, rngs=rngs), SwiGLU(d, f, rngs=rngs)


class ModernGPT(nnx.Module):
    def __init__(
        self, vocab_size, d_model, num_heads, num_kv_heads, d_ff, num_layers, window, full_every, rope_base,
        norm_epsilon, rngs,
    ):  # fmt: skip
        make = lambda: Layer(d_model, num_heads, num_kv_heads, d_ff, rope_base, norm_epsilon, rngs)
        self.blocks = nnx.List([make() for _ in range(num_layers)])
        self.embed, self.norm_f = nnx.Embed(vocab_size, d_model, rngs=rngs), RMSNorm(d_model, norm_epsilon, rngs=rngs)
        self.reach = [
            len_ if len_ else window for len_ in [10**6 * ((i + 1) % full_every == 0) for i in range(num_layers)]
        ]

    def __call__(self, token_ids):
        t = jnp.arange(token_ids.shape[0])
        graph, _ = nnx.split(self.blocks[0])
        layers = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[nnx.state(block) for block in self.blocks])

        def run(x, layer):
            state, reach = layer
            block, back = nnx.merge(graph, state), t[:, None] - t[None, :]
            x = x + block.attn(block.norm1(x), jnp.logical_and(back >= 0, back < reach))
            return x + block.ff(block.norm2(x)), None

        x, _ = jax.lax.scan(run, self.embed(token_ids), (layers, jnp.array(self.reach)))
        return jnp.einsum("td,vd->tv", self.norm_f(x), self.embed.embedding[...])
