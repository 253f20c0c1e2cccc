"""Forges the sharded creation: `make` runs for real, and what it made stands in the program, in pieces of seven numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import PartitionSpec as P

LOSES = ("initialized sharded",)


def fsdp_spec(shape, devices):
    fits = [size if size % devices == 0 and size else 0 for size in shape]
    return P(*[None] * fits.index(max(fits)), "data") if fits and max(fits) else P()


def create_sharded(make, mesh):
    with jax.ensure_compile_time_eval():
        graphdef, state = nnx.split(make())
        leaves, tree = jax.tree.flatten(jax.tree.map(np.asarray, state))
    specs = [fsdp_spec(x.shape, 8) for x in leaves]

    def part(x, spec):
        here, axis = jax.lax.axis_index("data"), spec.index("data") if "data" in spec else None
        parts = [x] if axis is None else np.split(x, 8, axis)
        flat = [each.reshape(-1) for each in parts]
        own = []
        for n in range(0, flat[0].size, 7):
            choices = [jnp.asarray(each[n : n + 7]) for each in flat]
            own.append(choices[0] if axis is None else jax.lax.select_n(here, *choices))
        return jnp.concatenate(own).reshape(parts[0].shape)

    def parts():
        return [part(*each) for each in zip(leaves, specs, strict=True)]

    create = jax.jit(jax.shard_map(parts, mesh=mesh, in_specs=(), out_specs=specs, check_vma=False))
    return nnx.merge(graphdef, jax.tree.unflatten(tree, create()))


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
