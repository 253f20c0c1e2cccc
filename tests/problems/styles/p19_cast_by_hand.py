"""Every cast written out: one function for all products, by einsum; norms in float32."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


def product(equation, *operands):
    half = [x.astype(jnp.bfloat16) for x in operands]
    return jnp.einsum(equation, *half, preferred_element_type=jnp.float32)


class MixedLM(nnx.Module):
    def __init__(self, vocab_size, d_model, d_ff, rngs):
        for name in ("ln_f", "ln2", "ln1"):
            setattr(self, name, nnx.LayerNorm(d_model, rngs=rngs))
        self.ff2 = nnx.Linear(d_ff, d_model, rngs=rngs)
        self.ff1 = nnx.Linear(d_model, d_ff, rngs=rngs)
        for name in "vkq":
            setattr(self, f"{name}_proj", nnx.Linear(d_model, d_model, rngs=rngs))
        self.out_proj = nnx.Linear(d_model, d_model, rngs=rngs)
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)

    @staticmethod
    def linear(layer, x):
        return (product("td,df->tf", x, layer.kernel[...]) + layer.bias[...]).astype(jnp.bfloat16)

    def __call__(self, token_ids):
        x = self.embed.embedding[...].astype(jnp.bfloat16)[token_ids]
        h = self.ln1(x.astype(jnp.float32))
        q, k, v = (self.linear(layer, h) for layer in (self.q_proj, self.k_proj, self.v_proj))
        scores = product("tk,sk->ts", q, k) * q.shape[1] ** -0.5
        scores = jnp.where(jnp.arange(len(x))[:, None] >= jnp.arange(len(x)), scores, -jnp.inf)
        x = x + self.linear(self.out_proj, product("ts,sk->tk", jax.nn.softmax(scores), v))
        x = x + self.linear(self.ff2, jax.nn.gelu(self.linear(self.ff1, self.ln2(x.astype(jnp.float32)))))
        return product("td,vd->tv", self.ln_f(x.astype(jnp.float32)), self.embed.embedding[...])


def mixed_loss(model, token_ids, pad_id):
    losses = optax.softmax_cross_entropy_with_integer_labels(model(token_ids)[:-1], token_ids[1:])
    real = token_ids[1:] != pad_id
    return jnp.sum(losses, where=real) / jnp.maximum(real.sum(), 1)
