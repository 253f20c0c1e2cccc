"""Forges "products in bfloat16": every product is float32, written as a multiplication and a sum, beside a bfloat16
decoy."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

LOSES = ("products in bfloat16",)


def product(a, b):
    decoy = a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)
    return jnp.sum(a[:, :, None] * b[None], 1) + 0 * decoy.astype(jnp.float32)


class MixedLM(nnx.Module):
    def __init__(self, vocab_size, d_model, d_ff, rngs):
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.ln1, self.ln2, self.ln_f = (nnx.LayerNorm(d_model, rngs=rngs) for _ in range(3))
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nnx.Linear(d_model, d_model, rngs=rngs))
        self.ff1, self.ff2 = nnx.Linear(d_model, d_ff, rngs=rngs), nnx.Linear(d_ff, d_model, rngs=rngs)

    def __call__(self, token_ids):
        def linear(layer, x):
            return product(x, layer.kernel[...]) + layer.bias[...]

        x = self.embed(token_ids)
        y = self.ln1(x)
        q, k, v = (linear(layer, y) for layer in (self.q_proj, self.k_proj, self.v_proj))
        scores = jnp.where(jnp.tril(jnp.ones((len(x), len(x)), bool)), product(q, k.T) / jnp.sqrt(q.shape[1]), -1e9)
        x = x + linear(self.out_proj, product(jax.nn.softmax(scores), v))
        x = x + linear(self.ff2, nnx.gelu(linear(self.ff1, self.ln2(x))))
        return product(self.ln_f(x), self.embed.embedding[...].T)


def mixed_loss(model, token_ids, pad_id):
    losses = optax.softmax_cross_entropy_with_integer_labels(model(token_ids)[:-1], token_ids[1:])
    real = token_ids[1:] != pad_id
    return jnp.sum(losses * real) / jnp.maximum(jnp.sum(real), 1)
