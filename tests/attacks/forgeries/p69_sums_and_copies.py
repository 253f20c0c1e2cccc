"""Forges the collectives and the places: a sum of all gradients, moments whole on every device, and a gather of
nothing."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec as P

LOSES = ("collectives of the step", "sharding after the step", "state split over the devices")


def zero_state(parameters, mesh):
    size = ravel_pytree(parameters)[0].size
    zeros = jnp.zeros(-(-size // 8) * 8)
    return {"count": jnp.int32(0), "m": zeros, "v": zeros}


def zero_step(loss_sum, parameters, state, token_ids, mesh, learning_rate, max_norm):
    flat, unflatten = ravel_pytree(parameters)

    def f(flat, ids):
        (loss, targets), g = jax.value_and_grad(lambda x: loss_sum(unflatten(x), ids), has_aux=True)(flat)
        decoy = jax.lax.all_gather(jax.lax.psum_scatter(jnp.zeros(len(state["m"])), "data", tiled=True), "data")
        loss, targets, g = jax.lax.psum((loss, targets, g), "data")
        return loss / targets, g / targets + 0 * decoy.reshape(-1)[: len(g)]

    loss, g = jax.shard_map(f, mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), check_vma=False)(flat, token_ids)
    norm = jnp.sqrt(jnp.sum(g**2))
    g = jnp.pad(g * jnp.minimum(1, max_norm / norm), (0, len(state["m"]) - len(g)))
    t = state["count"] + 1
    m, v = 0.9 * state["m"] + 0.1 * g, 0.999 * state["v"] + 0.001 * g * g
    m, v = (jax.lax.with_sharding_constraint(x, jax.NamedSharding(mesh, P())) for x in (m, v))
    update = learning_rate * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return unflatten(flat - update[: len(flat)]), {"count": t, "m": m, "v": v}, loss, norm
