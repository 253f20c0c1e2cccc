"""Problem 35: transforms. The page is in pages/p35_transforms.md."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


def train_step(
    model: nnx.Module,
    optimizer: nnx.Optimizer,
    x: Float[Array, "B D"],
    y: Float[Array, "B"],
) -> Float[Array, ""]:
    """Updates model and optimizer in place. Returns the mean squared error
    before the update. Compiled."""
    raise NotImplementedError


def input_gradient(model: nnx.Module, x: Float[Array, "B D"]) -> Float[Array, "B D"]:
    """The gradient of the sum of the model's scores with respect to x, (B, D)."""
    raise NotImplementedError


def member_outputs(models: nnx.Module, x: Float[Array, "B D"]) -> Float[Array, "E B"]:
    """The scores of E models, stacked along axis 0 of every
    Variable, on the same batch."""
    raise NotImplementedError
