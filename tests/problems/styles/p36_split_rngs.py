"""nnx.split_rngs around nnx.vmap, the fork of all streams kept, set_attributes on a merged model."""

import jax
import jax.numpy as jnp
from flax import nnx


class Dropout(nnx.Module):
    deterministic: bool = False

    def __init__(self, rate: float, rngs: nnx.Rngs):
        self.deterministic = False
        self.p = rate
        self.rngs = rngs.fork()

    def __call__(self, x):
        if self.deterministic:
            return x
        scale = 1 / (1 - self.p)
        return jax.lax.select(self.rngs.dropout.bernoulli(1 - self.p, x.shape), x * scale, jnp.zeros_like(x))


def predict(model, x):
    quiet = nnx.merge(*nnx.split(model))
    quiet.set_attributes(deterministic=True)
    return quiet(x)


def make_layers(num_layers, d_model, rngs):
    @nnx.split_rngs(splits=num_layers)
    @nnx.vmap
    def make(rngs):
        return nnx.Linear(d_model, d_model, rngs=rngs)

    return make(rngs)
