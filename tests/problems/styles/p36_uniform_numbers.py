"""Uniform numbers, multiplication by a mask, a fork of all streams, layers stacked by hand, flags set and put back."""

import jax
import jax.numpy as jnp
from flax import nnx


class Dropout(nnx.Module):
    def __init__(self, rate, *, rngs):
        self.stream = nnx.Rngs(noise=rngs.dropout())
        self.keep, self.deterministic = 1.0 - rate, False

    def __call__(self, x):
        if not self.deterministic:
            mask = jax.random.uniform(self.stream.noise(), x.shape) < self.keep
            x = x * mask / self.keep
        return x


def predict(model, x):
    flags = [
        (m, m.deterministic) for _, m in nnx.iter_graph(model) if isinstance(getattr(m, "deterministic", None), bool)
    ]
    for module, _ in flags:
        module.deterministic = True
    output = model(x)
    for module, flag in flags:
        module.deterministic = flag
    return output


def make_layers(num_layers, d_model, rngs):
    members = [nnx.Linear(d_model, d_model, rngs=rngs) for _ in range(num_layers)]
    stacked = nnx.Linear(d_model, d_model, rngs=rngs)
    nnx.update(stacked, jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(nnx.state, members)))
    return stacked
