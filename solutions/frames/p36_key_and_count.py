"""A key and a count in Variables of its own, folded in; a clone for the prediction; keys split by hand."""

import jax
import jax.numpy as jnp
from flax import nnx


class Dropout(nnx.Module):
    def __init__(self, rate, rngs):
        self.rate = rate
        self.key = nnx.Variable(rngs.dropout())
        self.count = nnx.Variable(jnp.uint32(0))
        self.deterministic = False

    def __call__(self, x):
        if self.deterministic or self.rate == 0:
            return x
        key = jax.random.fold_in(self.key[...], self.count[...])
        self.count[...] += 1
        dropped = jax.random.bernoulli(key, self.rate, jnp.shape(x))
        return jnp.where(dropped, jnp.zeros_like(x), x) / (1 - self.rate)


def predict(model, x):
    model = nnx.clone(model)
    model.eval()
    return model(x)


def make_layers(num_layers, d_model, rngs):
    keys = jax.random.split(rngs.params(), num_layers)
    return nnx.vmap(lambda key: nnx.Linear(d_model, d_model, rngs=nnx.Rngs(key)))(keys)
