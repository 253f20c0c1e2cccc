"""A base class, dataclass-like helpers, functools.reduce over the layers."""

import functools

import jax.numpy as jnp
from flax import nnx


class Base(nnx.Module):
    def observe(self, x):
        old = self.mean.get_value()
        self.mean[:] = old * 0.9 + x * 0.1


class StoryScorer(Base):
    def __init__(self, d_model, num_topics, num_layers, rngs):
        make = functools.partial(nnx.Linear, d_model, rngs=rngs)
        self.width = d_model
        self.layers = nnx.List(make(d_model) for _ in range(num_layers))
        self.heads = nnx.Dict()
        for name, size in (("length", 1), ("topic", num_topics)):
            self.heads[name] = make(size)
        self.scale = nnx.Param(jnp.ones((self.width,), jnp.float32))
        self.mean = nnx.BatchStat(jnp.zeros((self.width,), jnp.float32))

    def __call__(self, x):
        start = jnp.multiply(self.scale[...], x - self.mean[...])
        h = functools.reduce(lambda h, layer: nnx.relu(layer(h)), self.layers, start)
        return {"topic": self.heads.topic(h), "length": self.heads.length(h)}
