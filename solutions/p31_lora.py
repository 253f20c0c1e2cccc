"""Problem 31, reference: low-rank adapters."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float


class LoRALinear(nnx.Module):
    """Computes base(x) + alpha / rank · x a b (Hu et al. 2021)."""

    def __init__(self, base: nnx.Linear, rank: int, alpha: float, rngs: nnx.Rngs):
        d_in, d_out = base.in_features, base.out_features
        self.base = base
        self.scale = alpha / rank
        self.a = nnx.LoRAParam(jax.random.normal(rngs.params(), (d_in, rank)) / jnp.sqrt(d_in))
        self.b = nnx.LoRAParam(jnp.zeros((rank, d_out)))

    def __call__(self, x: Float[Array, "*B D"]) -> Float[Array, "*B F"]:
        return self.base(x) + self.scale * (x @ self.a[...] @ self.b[...])


def lora_optimizer(model: nnx.Module, learning_rate: float) -> nnx.Optimizer:
    """AdamW for the adapters. Other variables get neither updates nor moments."""
    return nnx.Optimizer(model, optax.adamw(learning_rate), wrt=nnx.LoRAParam)


def merge(layer: LoRALinear) -> nnx.Linear:
    """A new layer whose kernel is the base's plus the scaled product."""
    base = layer.base
    merged = nnx.Linear(base.in_features, base.out_features, rngs=nnx.Rngs(0))
    merged.kernel[...] = base.kernel[...] + layer.scale * (layer.a[...] @ layer.b[...])
    merged.bias[...] = base.bias[...]
    return merged
