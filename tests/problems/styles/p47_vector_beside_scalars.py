"""The gradients in one vector, with a sum of their own for the loss and for the count; the scattered sum by rows of
devices."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec as P


def tensor_parallel_mlp(x, w1, b1, w2, b2, mesh):
    @jax.shard_map(mesh=mesh, in_specs=(P(), P(None, "model"), P("model"), P("model"), P()), out_specs=P())
    def device(x, w1, b1, w2, b2):
        hidden = jnp.maximum(jnp.tensordot(x, w1, 1) + b1, 0)
        return b2 + jax.lax.psum(jnp.tensordot(hidden, w2, 1), "model")

    return device(x, w1, b1, w2, b2)


def sequence_parallel_mlp(x, w1, b1, w2, b2, mesh):
    @jax.shard_map(
        mesh=mesh, in_specs=(P("model"), P(None, "model"), P("model"), P("model"), P()), out_specs=P("model")
    )
    def device(x, w1, b1, w2, b2):
        whole = jax.lax.all_gather(x, "model", tiled=True)
        part = jnp.maximum(whole @ w1 + b1, 0) @ w2
        rows = jax.lax.psum_scatter(part.reshape(8, *x.shape), "model", scatter_dimension=0, tiled=False)
        return b2 + rows

    return device(x, w1, b1, w2, b2)


def data_parallel_gradient(loss_sum, parameters, token_ids, mesh):
    @jax.shard_map(mesh=mesh, in_specs=(P(), P("data", None)), out_specs=(P(), P()), check_vma=False)
    def device(parameters, rows):
        (total, count), slopes = jax.value_and_grad(loss_sum, has_aux=True)(parameters, rows)
        vector, unravel = ravel_pytree(slopes)
        vector = jax.lax.psum(vector, "data")
        count = jax.lax.psum(count, "data")
        return jax.lax.psum(total, "data") / count, unravel(vector / count)

    return device(parameters, token_ids)
