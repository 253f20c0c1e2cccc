"""The gradient of a sharded loss, taken outside of shard_map; both MLPs made by one function."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P


def make(mesh, spec, before, after):
    def body(x, w1, b1, w2, b2):
        return after(jax.nn.relu(before(x) @ w1 + b1) @ w2) + b2

    specs = (spec, P(None, "model"), P("model"), P("model", None), P(None))
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=spec))


def tensor_parallel_mlp(x, w1, b1, w2, b2, mesh):
    return make(mesh, P(None), lambda x: x, lambda y: lax.psum(y, "model"))(x, w1, b1, w2, b2)


def sequence_parallel_mlp(x, w1, b1, w2, b2, mesh):
    def scatter(y):
        return lax.psum_scatter(y, "model", scatter_dimension=0, tiled=True)

    return make(mesh, P("model", None), lambda x: lax.all_gather(x, "model", tiled=True), scatter)(x, w1, b1, w2, b2)


def data_parallel_gradient(loss_sum, parameters, token_ids, mesh):
    def mean(parameters):
        def body(parameters, rows):
            total, count = lax.psum(loss_sum(parameters, rows), "data")
            return total / jnp.maximum(count, 1)

        return jax.shard_map(body, mesh=mesh, in_specs=(P(), P("data", None)), out_specs=P())(parameters, token_ids)

    return jax.value_and_grad(mean)(parameters)
