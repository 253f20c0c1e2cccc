"""A type of variable of its own, data in a plain list, matrix products written out."""

import jax.numpy as jnp
from flax import nnx


class RunningMean(nnx.Variable):
    pass


class StoryScorer(nnx.Module):
    def __init__(self, d_model, num_topics, num_layers, rngs):
        self.mean = RunningMean(jnp.zeros(d_model))
        self.scale = nnx.Param(jnp.ones(d_model))
        self.layers = nnx.data([nnx.Linear(d_model, d_model, rngs=rngs) for _ in range(num_layers)])
        self.heads = nnx.data(
            {"topic": nnx.Linear(d_model, num_topics, rngs=rngs), "length": nnx.Linear(d_model, 1, rngs=rngs)}
        )

    def __call__(self, x):
        h = x * self.scale - self.mean * self.scale
        for layer in self.layers:
            h = jnp.maximum(jnp.einsum("i,io->o", h, layer.kernel[...]) + layer.bias, 0)
        return {key: h @ head.kernel + head.bias for key, head in self.heads.items()}

    def observe(self, x):
        self.mean.set_value((9 * self.mean + x) / 10)
