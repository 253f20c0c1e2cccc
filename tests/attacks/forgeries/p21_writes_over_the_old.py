"""Forges "state donated": the step donates nothing. A second function then writes the new state over the old one."""

from functools import partial

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

LOSES = ("state donated",)


def shard_state(node, mesh):
    def place(leaf):
        return jax.device_put(leaf, NamedSharding(mesh, P(*[None] * (leaf.ndim - 1), "model") if leaf.ndim else P()))

    nnx.update(node, jax.tree.map(place, nnx.state(node)))


def shard_batch(token_ids, mesh):
    return jax.device_put(token_ids, NamedSharding(mesh, P("data", None)))


def mean_loss(model, token_ids, pad_id):
    logits = jax.vmap(model)(token_ids)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], token_ids[:, 1:])
    real = token_ids[:, 1:] != pad_id
    return jnp.mean(jnp.sum(losses * real, 1) / jnp.maximum(jnp.sum(real, 1), 1))


def sharded_train_step(model, optimizer, token_ids, pad_id):
    graph, state = nnx.split((model, optimizer))

    @jax.jit
    def step(state):
        model, optimizer = nnx.merge(graph, state)
        loss, gradients = nnx.value_and_grad(mean_loss)(model, token_ids, pad_id)
        optimizer.update(model, gradients)
        return loss, jax.tree.map(lambda x: x + 0, nnx.state((model, optimizer)))

    @partial(jax.jit, donate_argnums=0)
    def written(old, new):
        return jax.tree.map(lambda x, y: jnp.where(x == x, y, x), old, new)

    loss, new = step(state)
    nnx.update((model, optimizer), written(state, new))
    return loss
