"""A plain function that calls a compiled one; uses `has_aux` and a loss function for the whole batch."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


def loss_fn(model, ids, pad_id):
    logits = jax.vmap(model)(ids)[:, :-1]
    targets = ids[:, 1:]
    mask = targets != pad_id
    losses = jnp.where(mask, optax.softmax_cross_entropy_with_integer_labels(logits, targets), 0)
    return (losses.sum(1) / jnp.clip(mask.sum(1), 1)).mean(), logits


@nnx.jit
def compiled(model, optimizer, ids, pad_id):
    (loss, _), gradients = nnx.value_and_grad(loss_fn, has_aux=True)(model, ids, pad_id)
    optimizer.update(model, gradients)
    return loss


def make_optimizer(model, learning_rate):
    return nnx.Optimizer(model, optax.adam(learning_rate), wrt=nnx.Param)


def train_step(model, optimizer, token_ids, pad_id):
    return compiled(model, optimizer, token_ids, pad_id)
