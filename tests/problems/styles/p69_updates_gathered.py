"""Gathers the updates in place of the parameters; optax's Adam on each device's part; sums by one `psum` of a tuple."""

import math

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def zero_state(parameters, mesh):
    count = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(parameters))
    rows = math.ceil(count / mesh.shape["data"])
    zeros = jax.lax.with_sharding_constraint(
        jnp.zeros(rows * mesh.shape["data"], jnp.float32), NamedSharding(mesh, P("data"))
    )
    return {"count": jnp.array(0), "m": zeros, "v": zeros}


def zero_step(loss_sum, parameters, state, token_ids, mesh, learning_rate, max_norm):
    adam = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)
    flat, unravel = ravel_pytree(parameters)

    def part(flat, state, rows):
        def loss(flat):
            return loss_sum(unravel(flat), rows)

        (total, targets), gradient = jax.value_and_grad(loss, has_aux=True)(flat)
        total, targets = jax.lax.psum((total, targets), "data")
        whole = jnp.concatenate([gradient, jnp.zeros(8 * len(state["m"]) - len(gradient))]).reshape(8, -1)
        own = jax.lax.psum_scatter(whole, "data") / targets
        norm = jax.lax.psum(own @ own, "data") ** 0.5
        own = jnp.where(norm > max_norm, own / norm * max_norm, own)
        before = optax.ScaleByAdamState(state["count"], state["m"], state["v"])
        update, after = adam.update(own, before)
        updates = jax.lax.all_gather(update, "data").reshape(-1)[: len(flat)]
        new = {"count": after.count, "m": after.mu, "v": after.nu}
        return flat - learning_rate * updates, new, total / targets, norm

    places = {"count": P(), "m": P("data"), "v": P("data")}
    new, state, loss, norm = jax.shard_map(
        part, mesh=mesh, in_specs=(P(), places, P("data")), out_specs=(P(), places, P(), P()), check_vma=False
    )(flat, state, token_ids)
    return unravel(new), state, loss, norm
