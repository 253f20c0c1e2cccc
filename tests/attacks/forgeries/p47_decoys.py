"""Forges all collectives: XLA chooses them from the placement, and the code calls those of the page on arrays nobody needs."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

LOSES = ("tensor-parallel collectives", "sequence-parallel collectives", "data-parallel collectives")


def decoy(body, mesh, spec, *arrays):
    return jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)(*arrays)


def tensor_parallel_mlp(x, w1, b1, w2, b2, mesh):
    out = jax.nn.relu(x @ w1 + b1) @ w2 + b2
    return out + 0 * decoy(lambda y: jax.lax.psum(y, "model"), mesh, P(), x)


def sequence_parallel_mlp(x, w1, b1, w2, b2, mesh):
    def both(y):
        return jax.lax.psum_scatter(jax.lax.all_gather(y, "model", tiled=True), "model", tiled=True)

    return jax.nn.relu(x @ w1 + b1) @ w2 + b2 + 0 * decoy(both, mesh, P("model", None), x)


def data_parallel_gradient(loss_sum, parameters, token_ids, mesh):
    def mean(parameters):
        total, count = loss_sum(parameters, token_ids)
        return total / count

    loss, slope = jax.value_and_grad(mean)(parameters)
    extra = decoy(lambda g: jax.lax.psum(g, "data"), mesh, P(), slope)
    return loss, jax.tree.map(lambda g, e: jnp.where(jnp.isnan(e), e, g), slope, extra)
