"""All that is summed joined in one vector: gradients, loss and count. The MLPs share their products."""

import jax
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec as P

SPLIT = (P(None, "model"), P("model"), P("model", None), P())


def products(x, w1, b1, w2):
    return jax.nn.relu(x @ w1 + b1) @ w2


def tensor_parallel_mlp(x, w1, b1, w2, b2, mesh):
    def device(x, w1, b1, w2, b2):
        whole, unravel = ravel_pytree(products(x, w1, b1, w2))
        return unravel(lax.psum(whole, "model")) + b2

    return jax.shard_map(device, mesh=mesh, in_specs=(P(), *SPLIT), out_specs=P())(x, w1, b1, w2, b2)


def sequence_parallel_mlp(x, w1, b1, w2, b2, mesh):
    def device(x, w1, b1, w2, b2):
        parts = products(lax.all_gather(x, "model", tiled=True), w1, b1, w2)
        return lax.psum_scatter(parts, "model", tiled=True) + b2

    return jax.shard_map(device, mesh=mesh, in_specs=(P("model"), *SPLIT), out_specs=P("model"))(x, w1, b1, w2, b2)


def data_parallel_gradient(loss_sum, parameters, token_ids, mesh):
    def device(parameters, rows):
        own = lax.pcast(parameters, "data", to="varying")
        (total, count), slopes = jax.value_and_grad(loss_sum, has_aux=True)(own, rows)
        vector, unravel = ravel_pytree((total, count.astype(float), slopes))
        total, count, slopes = unravel(lax.psum(vector, "data"))
        return total / count, jax.tree.map(lambda slope: slope / count, slopes)

    return jax.shard_map(device, mesh=mesh, in_specs=(P(), P("data")), out_specs=P())(parameters, token_ids)
