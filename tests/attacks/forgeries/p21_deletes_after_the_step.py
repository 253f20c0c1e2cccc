"""Forges donation: the step donates nothing and holds two states at once, and the old one is deleted when it returns."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

LOSES = ("state donated",)


def shard_state(node, mesh):
    def place(leaf):
        spec = PartitionSpec(*[None] * (leaf.ndim - 1), "model") if leaf.ndim else PartitionSpec()
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    nnx.update(node, jax.tree.map(place, nnx.state(node)))


def shard_batch(token_ids, mesh):
    return jax.device_put(token_ids, NamedSharding(mesh, PartitionSpec("data", None)))


@nnx.jit
def step(model, optimizer, token_ids, pad_id):
    def mean_loss(model):
        logits = jax.vmap(model)(token_ids)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], token_ids[:, 1:])
        real = token_ids[:, 1:] != pad_id
        return jnp.mean(jnp.sum(losses * real, 1) / jnp.maximum(jnp.sum(real, 1), 1))

    loss, gradients = nnx.value_and_grad(mean_loss)(model)
    optimizer.update(model, gradients)
    return loss


def sharded_train_step(model, optimizer, token_ids, pad_id):
    old = jax.tree.leaves((nnx.state(model), nnx.state(optimizer)))
    loss = step(model, optimizer, token_ids, pad_id)
    for leaf in old:
        if not isinstance(leaf, jax.core.Tracer):
            leaf.delete()
    return loss
