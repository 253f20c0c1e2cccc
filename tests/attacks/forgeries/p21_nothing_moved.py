"""Forges every sharding: nothing is moved, so every device holds everything."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

LOSES = (
    "model sharding", "optimizer sharding", "bytes per device", "batch sharding", "sharding unchanged after training",
)  # fmt: skip


def shard_state(node, mesh):
    pass


def shard_batch(token_ids, mesh):
    return jnp.asarray(token_ids)


@nnx.jit(donate_argnames=("model", "optimizer"))
def sharded_train_step(model, optimizer, token_ids, pad_id):
    def mean_loss(model):
        logits = jax.vmap(model)(token_ids)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], token_ids[:, 1:])
        real = token_ids[:, 1:] != pad_id
        return jnp.mean(jnp.sum(losses * real, 1) / jnp.maximum(jnp.sum(real, 1), 1))

    loss, gradients = nnx.value_and_grad(mean_loss)(model)
    optimizer.update(model, gradients)
    return loss
