"""Donates the old model and optimizer, and keeps a copy of what it reads after the step."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from p07_next_token_loss import next_token_loss


def make_optimizer(model, learning_rate):
    return nnx.Optimizer(model, optax.adam(learning_rate), wrt=nnx.Param)


@nnx.jit(donate_argnums=(0, 1))
def donating_step(model, optimizer, token_ids, pad_id):
    def loss(model):
        return jax.vmap(next_token_loss, (0, 0, None))(jax.vmap(model)(token_ids), token_ids, pad_id).mean()

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value


def train_step(model, optimizer, token_ids, pad_id):
    before = jax.tree.map(jnp.copy, nnx.pure(nnx.state(model, nnx.Param)))
    loss = donating_step(model, optimizer, token_ids, pad_id)
    moved = optax.global_norm(jax.tree.map(jnp.subtract, nnx.pure(nnx.state(model, nnx.Param)), before))
    return jnp.where(moved >= 0, loss, jnp.nan)
