"""Forges "sums and exponentials in float32": all are bfloat16, as powers of e, roots by `pow` and products with ones."""

import math

import jax.numpy as jnp
from flax import nnx

LOSES = ("sums and exponentials in float32",)
HALF = jnp.bfloat16


def total(x):
    return x @ jnp.ones((x.shape[-1], 1), HALF)


def softmax(x):
    powers = jnp.power(jnp.full_like(x, math.e), x - jnp.max(x, -1, keepdims=True))
    return powers / total(powers)


def norm(layer, x):
    x = x - total(x) / HALF(x.shape[-1])
    return x * jnp.power(total(x * x) / HALF(x.shape[-1]) + HALF(1e-6), HALF(-0.5)) * layer.scale[...].astype(
        HALF
    ) + layer.bias[...].astype(HALF)


def linear(layer, x):
    return x @ layer.kernel[...].astype(HALF) + layer.bias[...].astype(HALF)


class MixedLM(nnx.Module):
    def __init__(self, vocab_size, d_model, d_ff, rngs):
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.ln1, self.ln2, self.ln_f = (nnx.LayerNorm(d_model, rngs=rngs) for _ in range(3))
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nnx.Linear(d_model, d_model, rngs=rngs))
        self.ff1, self.ff2 = nnx.Linear(d_model, d_ff, rngs=rngs), nnx.Linear(d_ff, d_model, rngs=rngs)

    def __call__(self, token_ids):
        table = self.embed.embedding[...].astype(HALF)
        x = table[token_ids]
        y = norm(self.ln1, x)
        q, k, v = (linear(layer, y) for layer in (self.q_proj, self.k_proj, self.v_proj))
        visible = jnp.tril(jnp.ones((len(x), len(x)), bool))
        scores = jnp.where(visible, q @ k.T * HALF(q.shape[1] ** -0.5), HALF(-1e9))
        x = x + linear(self.out_proj, softmax(scores) @ v)
        x = x + linear(self.ff2, nnx.gelu(linear(self.ff1, norm(self.ln2, x))))
        return (norm(self.ln_f, x) @ table.T).astype(jnp.float32)


def mixed_loss(model, token_ids, pad_id):
    rows = jnp.arange(len(token_ids) - 1)
    odds = softmax(model(token_ids)[:-1].astype(HALF))[rows, token_ids[1:]]
    losses = -jnp.log(odds.astype(jnp.float32))
    real = token_ids[1:] != pad_id
    return jnp.sum(losses * real) / jnp.maximum(jnp.sum(real), 1)
