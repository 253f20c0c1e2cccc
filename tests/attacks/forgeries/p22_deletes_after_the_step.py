"""Forges donation: the step donates nothing and holds two states at once, and the old one is deleted when it
returns."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

LOSES = ("state donated",)


def fsdp_spec(shape, devices):
    axes = [axis for axis, size in enumerate(shape) if size % devices == 0]
    cut = max(axes, key=lambda axis: shape[axis], default=None)
    return PartitionSpec(*["data" if axis == cut else None for axis in range(len(shape))])


def create_sharded(make, mesh):
    graphdef, abstract = nnx.split(nnx.eval_shape(make))
    shardings = jax.tree.map(lambda leaf: NamedSharding(mesh, fsdp_spec(leaf.shape, 8)), abstract)
    return nnx.merge(graphdef, jax.jit(lambda: nnx.state(make()), out_shardings=shardings)())


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


def fsdp_step(model, optimizer, token_ids, pad_id):
    old = [leaf for leaf in jax.tree.leaves((nnx.state(model), nnx.state(optimizer))) if leaf.ndim]
    loss = step(model, optimizer, token_ids, pad_id)
    for leaf in old:
        leaf.delete()
    return loss
