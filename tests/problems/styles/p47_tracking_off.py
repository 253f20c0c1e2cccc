"""check_vma=False, a decorator, and a sum for each leaf; arrays gathered and scattered along an axis of their own."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def tensor_parallel_mlp(x, w1, b1, w2, b2, mesh):
    specs = (P(None, None), P(None, "model"), P("model"), P("model"), P(None))

    @partial(jax.shard_map, mesh=mesh, in_specs=specs, out_specs=P(None, None), check_vma=False)
    def mlp(x, w1, b1, w2, b2):
        h = jnp.maximum(jnp.einsum("td,df->tf", x, w1) + b1, 0)
        first = jax.lax.axis_index("model") == 0
        return jax.lax.psum(jnp.einsum("tf,fd->td", h, w2) + jnp.where(first, b2, 0), "model")

    return mlp(x, w1, b1, w2, b2)


def sequence_parallel_mlp(x, w1, b1, w2, b2, mesh):
    specs = (P("model"), P(None, "model"), P("model"), P("model"), P())

    @partial(jax.shard_map, mesh=mesh, in_specs=specs, out_specs=P("model"), check_vma=False)
    def mlp(x, w1, b1, w2, b2):
        devices = jax.lax.axis_size("model")
        x = jax.lax.all_gather(x, "model").reshape(-1, x.shape[-1])
        y = jnp.maximum(x @ w1 + b1, 0) @ w2
        return b2 + jax.lax.psum_scatter(y.reshape(devices, -1, y.shape[-1]), "model")

    return mlp(x, w1, b1, w2, b2)


def data_parallel_gradient(loss_sum, parameters, token_ids, mesh):
    @partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("data")), out_specs=(P(), P()), check_vma=False)
    def step(parameters, rows):
        (total, count), slope = jax.value_and_grad(loss_sum, has_aux=True)(parameters, rows)
        count = jax.lax.psum(count.astype(float), "data")
        return jax.lax.psum(total / count, "data"), {k: jax.lax.psum(g / count, ("data",)) for k, g in slope.items()}

    return step(parameters, token_ids)
