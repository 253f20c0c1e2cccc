"""The product a · b computed first, with einsum; the base deep-copied for the merge."""

import copy

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class LoRALinear(nnx.Module):
    def __init__(self, base, rank, alpha, rngs):
        self.b = nnx.LoRAParam(jnp.zeros((rank, base.out_features), jnp.float32))
        init = jax.nn.initializers.normal(stddev=base.in_features**-0.5)
        self.a = nnx.LoRAParam(init(rngs.lora(), (base.in_features, rank)))
        self.base, self.rank, self.alpha = base, rank, alpha

    def delta(self):
        return jnp.einsum("dr,rf->df", self.a[...], self.b[...]) * self.alpha / self.rank

    def __call__(self, x):
        return x @ (self.base.kernel[...] + self.delta()) + self.base.bias[...]


def lora_optimizer(model, learning_rate):
    return nnx.Optimizer(model, optax.adamw(learning_rate=learning_rate), wrt=nnx.LoRAParam)


def merge(layer):
    merged = copy.deepcopy(layer.base)
    merged.kernel[...] += layer.delta()
    return merged
