"""Flattens by hand, one row of a matrix for each device; the part of the parameters comes from a scattered mean."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec


def _flat(tree, size):
    flat = jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(tree)])
    return jnp.concatenate([flat, jnp.zeros(size - flat.size)])


def _unflat(flat, like):
    leaves, structure = jax.tree.flatten(like)
    new, start = [], 0
    for leaf in leaves:
        new.append(flat[start : start + leaf.size].reshape(leaf.shape))
        start += leaf.size
    return jax.tree.unflatten(structure, new)


def zero_state(parameters, mesh):
    number = sum(leaf.size for leaf in jax.tree.leaves(parameters))
    padded = (number + 7) // 8 * 8
    moments = jax.jit(lambda: jnp.zeros(padded), out_shardings=NamedSharding(mesh, PartitionSpec("data")))
    return {"m": moments(), "v": moments(), "count": jnp.asarray(0, jnp.int32)}


def zero_step(loss_sum, parameters, state, token_ids, mesh, learning_rate, max_norm):
    N = state["m"].size

    def body(parameters, state, ids):
        (loss, n), slopes = jax.value_and_grad(loss_sum, has_aux=True)(parameters, ids)
        loss, n = lax.psum(loss, "data"), lax.psum(n, "data")
        g = lax.psum_scatter(_flat(slopes, N) / n, "data", scatter_dimension=0, tiled=True)
        norm = lax.psum(jnp.vdot(g, g), "data") ** 0.5
        g = g / jnp.maximum(norm / max_norm, 1.0)
        count = state["count"] + 1
        m, v = 0.9 * state["m"] + 0.1 * g, 0.999 * state["v"] + 0.001 * g**2
        correction = jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        step = learning_rate * correction * m / (jnp.sqrt(v) + 1e-8 * jnp.sqrt(1 - 0.999**count))
        mine = _flat(parameters, N).reshape(8, -1)[lax.axis_index("data")] - step
        return (
            _unflat(lax.all_gather(mine, "data", tiled=True), parameters),
            {"m": m, "v": v, "count": count},
            loss / n,
            norm,
        )

    whole, split = PartitionSpec(), PartitionSpec("data")
    places = {"m": split, "v": split, "count": whole}
    return jax.shard_map(
        body, mesh=mesh, in_specs=(whole, places, split), out_specs=(whole, places, whole, whole), check_vma=False
    )(parameters, state, token_ids)
