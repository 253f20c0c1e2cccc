"""Flax's own dropout, written out: a mask of the shape of x with no axis broadcast, and lax.select."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax


class Dropout(nnx.Module):
    def __init__(self, rate, *, broadcast_dims=(), deterministic=False, rng_collection="dropout", rngs):
        self.rate = rate
        self.broadcast_dims = broadcast_dims
        self.deterministic = deterministic
        self.rngs = rngs[rng_collection].fork()

    def __call__(self, inputs):
        if self.rate == 0.0 or self.deterministic:
            return inputs
        keep_prob = 1.0 - self.rate
        broadcast_shape = list(inputs.shape)
        for dim in self.broadcast_dims:
            broadcast_shape[dim] = 1
        mask = jax.random.bernoulli(self.rngs(), p=keep_prob, shape=broadcast_shape)
        return lax.select(jnp.broadcast_to(mask, inputs.shape), inputs / keep_prob, jnp.zeros_like(inputs))


def predict(model, x):
    quiet = nnx.merge(*nnx.split(model))
    quiet.eval()
    return quiet(x)


def make_layers(num_layers, d_model, rngs):
    @nnx.split_rngs(splits=num_layers)
    @nnx.vmap(in_axes=(0,), out_axes=0)
    def create(rngs):
        return nnx.Linear(d_model, d_model, rngs=rngs)

    return create(rngs)
