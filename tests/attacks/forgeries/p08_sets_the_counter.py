"""Forges "compiled once": compiles nothing, and sets the count of forward passes back to one after each step."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

LOSES = ("compiled once",)


def make_optimizer(model, learning_rate):
    return nnx.Optimizer(model, optax.adam(learning_rate), wrt=nnx.Param)


def train_step(model, optimizer, token_ids, pad_id):
    real = token_ids[:, 1:] != pad_id

    def mean_loss(model):
        logits = jax.vmap(model)(token_ids)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], token_ids[:, 1:])
        return jnp.mean(jnp.sum(losses * real, 1) / jnp.maximum(jnp.sum(real, 1), 1))

    loss, gradients = nnx.value_and_grad(mean_loss)(model)
    optimizer.update(model, gradients)
    if hasattr(model, "traces"):
        model.traces.count = 1
    return loss
