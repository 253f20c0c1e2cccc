"""Problem 33, reference: a module with parameters and a running mean."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class StoryScorer(nnx.Module):
    """A stack of layers with two heads, and a running mean of its inputs that is not trained."""

    def __init__(self, d_model: int, num_topics: int, num_layers: int, rngs: nnx.Rngs):
        self.mean = nnx.BatchStat(jnp.zeros(d_model))
        self.scale = nnx.Param(jnp.ones(d_model))
        self.layers = nnx.List([nnx.Linear(d_model, d_model, rngs=rngs) for _ in range(num_layers)])
        self.heads = nnx.Dict(
            topic=nnx.Linear(d_model, num_topics, rngs=rngs),
            length=nnx.Linear(d_model, 1, rngs=rngs),
        )

    def __call__(self, x: Float[Array, "D"]) -> dict[str, Float[Array, "..."]]:
        h_D = (x - self.mean[...]) * self.scale[...]
        for layer in self.layers:
            h_D = nnx.relu(layer(h_D))
        return {name: head(h_D) for name, head in self.heads.items()}

    def observe(self, x: Float[Array, "D"]) -> None:
        self.mean[...] = 0.9 * self.mean[...] + 0.1 * x
