"""Everything in one file; one product for q, k and v; masks as additive biases, one mask for each layer made in the
block."""

import jax
import jax.numpy as jnp
from flax import nnx


class RMSNorm(nnx.Module):
    def __init__(self, width, eps, *, rngs):
        self.scale, self.eps = nnx.Param(jnp.ones(width)), eps

    def __call__(self, x):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + self.eps) * self.scale[...]


class SwiGLU(nnx.Module):
    def __init__(self, width, inner, *, rngs):
        self.down_proj = nnx.Linear(inner, width, use_bias=False, rngs=rngs)
        self.gate_proj, self.up_proj = (nnx.Linear(width, inner, use_bias=False, rngs=rngs) for _ in range(2))

    def __call__(self, x):
        return self.down_proj(self.up_proj(x) * jax.nn.silu(self.gate_proj(x)))


class Attention(nnx.Module):
    def __init__(self, width, heads, groups, base, *, rngs):
        self.k, self.groups, self.base = width // heads, groups, base
        self.q_proj, self.out_proj = (nnx.Linear(width, width, use_bias=False, rngs=rngs) for _ in range(2))
        self.k_proj, self.v_proj = (nnx.Linear(width, groups * self.k, use_bias=False, rngs=rngs) for _ in range(2))

    def __call__(self, x, bias):
        t = len(x)
        kernels = [layer.kernel[...] for layer in (self.q_proj, self.k_proj, self.v_proj)]
        heads = (x @ jnp.concatenate(kernels, axis=1)).reshape(t, -1, self.k)
        q, k, values = jnp.split(heads, [heads.shape[1] - 2 * self.groups, heads.shape[1] - self.groups], axis=1)
        q, k = self.turn(q).reshape(t, self.groups, -1, self.k), self.turn(k)
        scores = jnp.einsum("tgrk,sgk->grts", q, k) / self.k**0.5 + bias
        return self.out_proj(jnp.einsum("grts,sgk->tgrk", jax.nn.softmax(scores), values).reshape(t, -1))

    def turn(self, x):
        angles = jnp.arange(len(x))[:, None] * self.base ** (-jnp.arange(0, self.k, 2) / self.k)
        z = jax.lax.complex(*jnp.split(x, 2, -1)) * jnp.exp(1j * angles)[:, None]
        return jnp.concatenate([z.real, z.imag], -1)


class Block(nnx.Module):
    def __init__(self, width, heads, groups, inner, base, eps, reach, *, rngs):
        self.ff = SwiGLU(width, inner, rngs=rngs)
        self.attn = Attention(width, heads, groups, base, rngs=rngs)
        self.norm2, self.norm1 = RMSNorm(width, eps, rngs=rngs), RMSNorm(width, eps, rngs=rngs)
        self.reach = reach

    def __call__(self, x):
        s = jnp.arange(len(x))
        bias = jnp.where((s <= s[:, None]) & (s > s[:, None] - self.reach), 0, -jnp.inf)
        x = x + self.attn(self.norm1(x), bias)
        return x + self.ff(self.norm2(x))


class ModernGPT(nnx.Module):
    def __init__(
        self, vocab_size, d_model, num_heads, num_kv_heads, d_ff, num_layers, window, full_every, rope_base,
        norm_epsilon, rngs,
    ):  # fmt: skip
        self.norm_f = RMSNorm(d_model, norm_epsilon, rngs=rngs)
        self.blocks = nnx.List()
        for layer in range(1, num_layers + 1):
            reach = window if layer % full_every else 1 << 30
            self.blocks.append(Block(d_model, num_heads, num_kv_heads, d_ff, rope_base, norm_epsilon, reach, rngs=rngs))
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)

    def __call__(self, token_ids):
        x = self.embed(token_ids)
        for block in self.blocks:
            x = block(x)
        return self.embed.attend(self.norm_f(x))
