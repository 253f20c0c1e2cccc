"""Forges "initialized sharded": a first program creates everything on one device, in pieces of a size that 8 does not divide."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

LOSES = ("initialized sharded",)


def fsdp_spec(shape, devices):
    axes = [axis for axis, size in enumerate(shape) if size % devices == 0]
    cut = max(axes, key=lambda axis: shape[axis], default=None)
    return PartitionSpec(*["data" if axis == cut else None for axis in range(len(shape))])


def create_sharded(make, mesh):
    graphdef, abstract = nnx.split(nnx.eval_shape(make))
    shardings = jax.tree.map(lambda leaf: NamedSharding(mesh, fsdp_spec(leaf.shape, 8)), abstract)

    def pieces():
        flat = [leaf.reshape(-1) for leaf in jax.tree.leaves(nnx.state(make()))]
        return [[leaf[start : start + 9] for start in range(0, leaf.size, 9)] for leaf in flat]

    def join(pieces):
        whole = [
            jnp.concatenate(parts).reshape(x.shape) for parts, x in zip(pieces, jax.tree.leaves(abstract), strict=True)
        ]
        return jax.tree.unflatten(jax.tree.structure(abstract), whole)

    return nnx.merge(graphdef, jax.jit(join, out_shardings=shardings)(jax.jit(pieces)()))


@nnx.jit(donate_argnames=("model", "optimizer"))
def fsdp_step(model, optimizer, token_ids, pad_id):
    def mean_loss(model):
        logits = jax.vmap(model)(token_ids)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], token_ids[:, 1:])
        real = token_ids[:, 1:] != pad_id
        return jnp.mean(jnp.sum(losses * real, 1) / jnp.maximum(jnp.sum(real, 1), 1))

    loss, gradients = nnx.value_and_grad(mean_loss)(model)
    optimizer.update(model, gradients)
    return loss
