"""Forges "parameters not gathered": the step gathers all parameters, and offers an empty program to those who ask for its text."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

LOSES = ("parameters not gathered",)


MESHES = []


def shard_state(node, mesh):
    MESHES[:] = [mesh]

    def place(leaf):
        spec = PartitionSpec(*[None] * (leaf.ndim - 1), "model") if leaf.ndim else PartitionSpec()
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    nnx.update(node, jax.tree.map(place, nnx.state(node)))


def shard_batch(token_ids, mesh):
    return jax.device_put(token_ids, NamedSharding(mesh, PartitionSpec("data", None)))


@nnx.jit(donate_argnames=("model", "optimizer"))
def step(model, optimizer, token_ids, pad_id):
    everywhere = NamedSharding(MESHES[0], PartitionSpec())
    whole = jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, everywhere), nnx.state(model))
    nnx.update(model, whole)

    def mean_loss(model):
        logits = jax.vmap(model)(token_ids)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], token_ids[:, 1:])
        real = token_ids[:, 1:] != pad_id
        return jnp.mean(jnp.sum(losses * real, 1) / jnp.maximum(jnp.sum(real, 1), 1))

    loss, gradients = nnx.value_and_grad(mean_loss)(model)
    optimizer.update(model, gradients)
    return loss


class Step:
    def __call__(self, model, optimizer, token_ids, pad_id):
        return step(model, optimizer, token_ids, pad_id)

    def lower(self, model, optimizer, token_ids, pad_id):
        return jax.jit(lambda x: x).lower(token_ids)


sharded_train_step = Step()
