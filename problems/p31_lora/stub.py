"""Problem 31: low-rank adapters. The page is in pages/p31_lora.md."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float


class LoRALinear(nnx.Module):
    """A frozen linear layer plus a trained change of low rank."""

    def __init__(self, base: nnx.Linear, rank: int, alpha: float, rngs: nnx.Rngs):
        """Keeps `base`. Makes `a` (D, rank) and `b` (rank, F), the only
        numbers that are trained."""
        raise NotImplementedError

    def __call__(self, x: Float[Array, "*B D"]) -> Float[Array, "*B F"]:
        """x: (..., D). Returns (..., F)."""
        raise NotImplementedError


def lora_optimizer(model: nnx.Module, learning_rate: float) -> nnx.Optimizer:
    """AdamW for the nnx.LoRAParams of a model and for nothing else."""
    raise NotImplementedError


def merge(layer: LoRALinear) -> nnx.Linear:
    """A new linear layer that computes the same. Leaves `layer` unchanged."""
    raise NotImplementedError
