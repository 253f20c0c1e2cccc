"""Other order of draws and names, a nnx.Variable for the mean, update by moving toward the story."""

import jax
import jax.numpy as jnp
from flax import nnx


class StoryScorer(nnx.Module):
    def __init__(self, d_model, num_topics, num_layers, *, rngs):
        length = nnx.Linear(d_model, 1, rngs=rngs)
        self.heads = nnx.Dict({"length": length, "topic": nnx.Linear(d_model, num_topics, rngs=rngs)})
        self.layers = nnx.List()
        for _ in range(num_layers):
            self.layers.append(nnx.Linear(d_model, d_model, rngs=rngs))
        self.scale = nnx.Param(jnp.full(d_model, 1.0))
        self.mean = nnx.Variable(jnp.zeros((d_model,)))

    def __call__(self, x):
        for number in range(len(self.layers)):
            x = (x - self.mean[...]) * self.scale[...] if number == 0 else x
            x = jax.nn.relu(self.layers[number](x))
        return {"topic": self.heads["topic"](x), "length": self.heads["length"](x)}

    def observe(self, x):
        self.mean[...] += 0.1 * (x - self.mean[...])
