"""Problem 36: random keys and dropout. The page is in pages/p36_rngs_and_dropout.md."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class Dropout(nnx.Module):
    """Sets numbers to 0 at random while training."""

    def __init__(self, rate: float, rngs: nnx.Rngs):
        """Keeps the rate, what its keys come from, and
        `deterministic`, which is False."""
        raise NotImplementedError

    def __call__(self, x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
        """x: (..., D). Returns (..., D)."""
        raise NotImplementedError


def predict(model: nnx.Module, x: Float[Array, "B D"]) -> Float[Array, "B F"]:
    """The output of the model without dropout. Each part of the model stays
    in the mode that it is in."""
    raise NotImplementedError


def make_layers(num_layers: int, d_model: int, rngs: nnx.Rngs) -> nnx.Linear:
    """One nnx.Linear that holds num_layers layers: kernel (L, D, D), bias (L, D). Each
    is drawn with a key of its own."""
    raise NotImplementedError
