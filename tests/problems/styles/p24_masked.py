"""optax.masked around a scale; initial values drawn with jax.random and written into the Params."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class MupLM(nnx.Module):
    def __init__(self, vocab_size: int, d_model: int, base_d_model: int, rngs: nnx.Rngs):
        self.ratio = d_model // base_d_model
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs)
        self.hidden = nnx.Linear(d_model, d_model, rngs=rngs)
        self.head = nnx.Linear(d_model, vocab_size, rngs=rngs, use_bias=False)
        self.embed.embedding[...] = jax.random.normal(rngs.params(), (vocab_size, d_model))
        self.hidden.kernel[...] = jax.random.normal(rngs.params(), (d_model, d_model)) / jnp.sqrt(d_model)
        self.head.kernel[...] = jax.random.normal(rngs.params(), (d_model, vocab_size)) / jnp.sqrt(base_d_model)

    def __call__(self, token_ids):
        return self.head(nnx.relu(self.hidden(self.embed(token_ids)))) / self.ratio


def hidden(parameters):
    name = lambda path: jax.tree_util.keystr(path)
    return jax.tree_util.tree_map_with_path(lambda p, _: "kernel" in name(p) and "head" not in name(p), parameters)


def mup_adam(learning_rate, d_model, base_d_model):
    return optax.chain(
        optax.scale_by_adam(),
        optax.masked(optax.scale(base_d_model / d_model), hidden),
        optax.scale(-learning_rate),
    )
