"""Problem 40, reference: a modern GPT."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int
from p38_rms_norm_swiglu import RMSNorm, SwiGLU
from p39_grouped_query_attention import GQA


class ModernBlock(nnx.Module):
    """A pre-norm block with the parts of problems 37 to 39."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        d_ff: int,
        rope_base: float,
        norm_epsilon: float,
        rngs: nnx.Rngs,
    ):
        self.norm1 = RMSNorm(d_model, norm_epsilon, rngs=rngs)
        self.attn = GQA(d_model, num_heads, num_kv_heads, rope_base, rngs=rngs)
        self.norm2 = RMSNorm(d_model, norm_epsilon, rngs=rngs)
        self.ff = SwiGLU(d_model, d_ff, rngs=rngs)

    def __call__(self, x_TD: Float[Array, "T D"], mask_TS: Bool[Array, "T T"]) -> Float[Array, "T D"]:
        x_TD = x_TD + self.attn(self.norm1(x_TD), mask_TS)
        return x_TD + self.ff(self.norm2(x_TD))


class ModernGPT(nnx.Module):
    """A GPT in which one layer of every `full_every` sees all positions, the others a window (Gemma 3, 2025)."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        d_ff: int,
        num_layers: int,
        window: int,
        full_every: int,
        rope_base: float,
        norm_epsilon: float,
        rngs: nnx.Rngs,
    ):
        self.window, self.full_every = window, full_every
        sizes = (d_model, num_heads, num_kv_heads, d_ff, rope_base, norm_epsilon)
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.blocks = nnx.List([ModernBlock(*sizes, rngs=rngs) for _ in range(num_layers)])
        self.norm_f = RMSNorm(d_model, norm_epsilon, rngs=rngs)

    def __call__(self, token_ids: Int[Array, "T"]) -> Float[Array, "T V"]:
        positions_T = jnp.arange(len(token_ids))
        distance_TS = positions_T[:, None] - positions_T
        causal_TS = distance_TS >= 0
        local_TS = causal_TS & (distance_TS < self.window)
        x_TD = self.embed(token_ids)
        for i, block in enumerate(self.blocks):
            full = (i + 1) % self.full_every == 0
            x_TD = block(x_TD, causal_TS if full else local_TS)
        return self.norm_f(x_TD) @ self.embed.embedding[...].T
