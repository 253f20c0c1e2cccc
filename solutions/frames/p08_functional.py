"""Uses `nnx.split`, `nnx.merge` and `jax.value_and_grad`, with the loss written out again."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from flax import nnx


def story_loss(logits, ids, pad_id):
    real = (ids[1:] != pad_id).astype(jnp.float32)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits[:-1], ids[1:])
    return (real * losses).sum() / jnp.maximum(real.sum(), 1)


def make_optimizer(model, learning_rate):
    return nnx.Optimizer(model, optax.adam(learning_rate=learning_rate), wrt=nnx.Param)


@partial(nnx.jit, static_argnames="pad_id")
def train_step(model, optimizer, token_ids, pad_id):
    graphdef, params, rest = nnx.split(model, nnx.Param, ...)

    @jax.value_and_grad
    def loss_and_gradient(params):
        apply = nnx.merge(graphdef, params, rest)
        losses = jax.vmap(lambda ids: story_loss(apply(ids), ids, pad_id))(token_ids)
        return losses.mean()

    loss, gradients = loss_and_gradient(params)
    optimizer.update(model, gradients)
    return loss
