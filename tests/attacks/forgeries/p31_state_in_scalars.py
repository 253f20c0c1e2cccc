"""Forges "no optimizer state for the base": keeps moments of every number of the base, as scalars, which are not counted."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

LOSES = ("no optimizer state for the base",)


class LoRALinear(nnx.Module):
    def __init__(self, base, rank, alpha, rngs):
        self.base, self.scale = base, alpha / rank
        self.a = nnx.LoRAParam(jax.random.normal(rngs.params(), (base.in_features, rank)) / base.in_features**0.5)
        self.b = nnx.LoRAParam(jnp.zeros((rank, base.out_features)))

    def __call__(self, x):
        return self.base(x) + self.scale * (x @ self.a[...] @ self.b[...])


def moments_in_scalars():
    def init(parameters):
        return jax.tree.map(lambda leaf: [jnp.zeros(()) for _ in range(leaf.size)], parameters)

    def update(gradients, state, parameters=None):
        def step(gradient, means):
            return [0.9 * mean + 0.1 * number for mean, number in zip(means, gradient.ravel(), strict=True)]

        return jax.tree.map(jnp.zeros_like, gradients), jax.tree.map(step, gradients, state)

    return optax.GradientTransformation(init, update)


def lora_optimizer(model, learning_rate):
    def labels(parameters):
        names = lambda path: jax.tree_util.keystr(path, simple=True, separator=".").split(".")  # noqa: E731
        adapter = lambda path, leaf: "adapter" if {"a", "b"} & set(names(path)) else "base"  # noqa: E731
        return jax.tree_util.tree_map_with_path(adapter, parameters)

    groups = {"adapter": optax.adamw(learning_rate), "base": moments_in_scalars()}
    return nnx.Optimizer(model, optax.partition(groups, labels), wrt=nnx.Param)


def merge(layer):
    base = layer.base
    merged = nnx.Linear(base.in_features, base.out_features, rngs=nnx.Rngs(0))
    merged.kernel[...] = base.kernel[...] + layer.scale * (layer.a[...] @ layer.b[...])
    merged.bias[...] = base.bias[...]
    return merged
