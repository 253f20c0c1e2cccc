"""Problem 08: a train step. The page is in pages/p08_train_step.md."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, Float, Int

# Once problem 07 is done: from p07_next_token_loss import next_token_loss


def make_optimizer(model: nnx.Module, learning_rate: float) -> nnx.Optimizer:
    """Returns an nnx.Optimizer with optax.adam that trains the model's nnx.Params."""
    raise NotImplementedError


# Compiled, because a run calls it a million times. How?
def train_step(
    model: nnx.Module,
    optimizer: nnx.Optimizer,
    token_ids: Int[Array, "B T"],
    pad_id: int,
) -> Float[Array, ""]:
    """Updates model and optimizer in place. Returns the loss before the update, a
    scalar.

    model: maps token ids (T,) to logits (T, V). token_ids: (B, T). Stories,
    right-padded with `pad_id`.
    """
    raise NotImplementedError
