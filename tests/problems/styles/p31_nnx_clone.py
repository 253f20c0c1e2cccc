"""nnx.clone for the merge; the scale as a static attribute."""

import jax.numpy as jnp
import optax
from flax import nnx


class LoRALinear(nnx.Module):
    def __init__(self, base: nnx.Linear, rank: int, alpha: float, rngs: nnx.Rngs):
        D, F = base.kernel.shape
        self.base = base
        self.factor = nnx.static(alpha / rank) if hasattr(nnx, "static") else alpha / rank
        self.a = nnx.LoRAParam(rngs.params.normal((D, rank)) * D**-0.5)
        self.b = nnx.LoRAParam(jnp.zeros((rank, F)))

    def __call__(self, x):
        low = jnp.dot(x, self.a[...])
        return self.base(x) + jnp.dot(low, self.b[...]) * self.factor


def lora_optimizer(model, learning_rate):
    return nnx.Optimizer(model, optax.adamw(learning_rate), wrt=nnx.LoRAParam)


def merge(layer):
    new = nnx.clone(layer.base)
    new.kernel[...] = new.kernel[...] + layer.factor * (layer.a[...] @ layer.b[...])
    return new
