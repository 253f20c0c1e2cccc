"""Forges the collectives of the MLPs: every sum is of one number or one row, in a loop, with as many bytes as one sum of all."""

import jax
from jax.sharding import PartitionSpec as P

LOSES = ("tensor-parallel collectives", "sequence-parallel collectives", "data-parallel collectives")
COLUMNS = (P(None, "model"), P("model"), P("model", None), P())


def tensor_parallel_mlp(x, w1, b1, w2, b2, mesh):
    def body(x, w1, b1, w2, b2):
        part = jax.nn.relu(x @ w1 + b1) @ w2
        return jax.lax.map(lambda number: jax.lax.psum(number, "model"), part.reshape(-1)).reshape(part.shape) + b2

    return jax.shard_map(body, mesh=mesh, in_specs=(P(), *COLUMNS), out_specs=P())(x, w1, b1, w2, b2)


def sequence_parallel_mlp(x, w1, b1, w2, b2, mesh):
    def body(x, w1, b1, w2, b2):
        rows = jax.lax.map(lambda row: jax.lax.all_gather(row, "model"), x)  # (T/8, 8, D)
        part = jax.nn.relu(rows @ w1 + b1) @ w2
        return jax.lax.map(lambda row: jax.lax.psum_scatter(row, "model"), part) + b2

    rows = P("model", None)
    return jax.shard_map(body, mesh=mesh, in_specs=(rows, *COLUMNS), out_specs=rows)(x, w1, b1, w2, b2)


def data_parallel_gradient(loss_sum, parameters, token_ids, mesh):
    def body(parameters, rows):
        own = jax.lax.pcast(parameters, "data", to="varying")
        (loss, count), slopes = jax.value_and_grad(loss_sum, has_aux=True)(own, rows)
        loss, count = jax.lax.psum((loss, count), "data")
        sums = jax.tree.map(lambda g: jax.lax.map(lambda row: jax.lax.psum(row, "data"), g), slopes)
        return loss / count, jax.tree.map(lambda g: g / count, sums)

    return jax.shard_map(body, mesh=mesh, in_specs=(P(), P("data", None)), out_specs=P())(parameters, token_ids)
