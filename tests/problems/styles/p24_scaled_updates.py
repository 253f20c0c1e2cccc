"""One Adam whose updates are scaled afterwards; the head multiplied by hand."""

import jax
import optax
from flax import nnx


class MupLM(nnx.Module):
    def __init__(self, vocab_size, d_model, base_d_model, rngs):
        self.head = nnx.Linear(
            d_model, vocab_size, rngs=rngs, use_bias=False, kernel_init=nnx.initializers.normal(1 / base_d_model**0.5)
        )
        self.hidden = nnx.Linear(d_model, d_model, rngs=rngs)  # lecun_normal: 1/sqrt(fan in), truncated
        self.embed = nnx.Embed(vocab_size, d_model, rngs=rngs, embedding_init=nnx.initializers.normal(1))
        self.factor = base_d_model / d_model

    def __call__(self, ids):
        return self.factor * (jax.nn.relu(self.hidden(self.embed(ids))) @ self.head.kernel[...])


def mup_adam(learning_rate, d_model, base_d_model):
    def scale(updates, state, params=None):
        def one(path, update):
            words = jax.tree_util.keystr(path, simple=True, separator="/").split("/")
            return update * (base_d_model / d_model) if "kernel" in words and "head" not in words else update

        return jax.tree_util.tree_map_with_path(one, updates), state

    slower = optax.GradientTransformation(lambda params: optax.EmptyState(), scale)
    return optax.chain(optax.adam(learning_rate), slower)
