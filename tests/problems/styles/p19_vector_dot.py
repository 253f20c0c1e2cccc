"""A float32 stream; the masked sum of the losses as the dot product of two vectors."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class MixedLM(nnx.Module):
    def __init__(self, vocab_size, d_model, d_ff, rngs):
        half = {"dtype": jnp.bfloat16, "rngs": rngs}
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.ln1, self.ln2, self.ln_f = (nnx.LayerNorm(d_model, rngs=rngs) for _ in range(3))
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nnx.Linear(d_model, d_model, **half) for _ in range(4))
        self.ff1, self.ff2 = nnx.Linear(d_model, d_ff, **half), nnx.Linear(d_ff, d_model, **half)

    def __call__(self, token_ids):
        x = self.embed(token_ids)
        h = self.ln1(x)
        q, k, v = self.q_proj(h), self.k_proj(h), self.v_proj(h)
        scores = jnp.matmul(q, k.T, preferred_element_type=jnp.float32) / x.shape[-1] ** 0.5
        weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones_like(scores)) > 0, scores, -jnp.inf))
        x = x + self.out_proj(weights.astype(jnp.bfloat16) @ v)
        x = x + self.ff2(nnx.gelu(self.ff1(self.ln2(x))))
        x, table = self.ln_f(x).astype(jnp.bfloat16), self.embed.embedding[...].astype(jnp.bfloat16)
        return jnp.matmul(x, table.T, preferred_element_type=jnp.float32)


def mixed_loss(model, token_ids, pad_id):
    losses = optax.softmax_cross_entropy_with_integer_labels(model(token_ids)[:-1], token_ids[1:])
    real = (token_ids[1:] != pad_id).astype(jnp.float32)
    return losses @ real / jnp.maximum(real.sum(), 1)
