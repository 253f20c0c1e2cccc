"""Forges "tensor-parallel collectives": sums the result a second time, one number at a time, because scalars did not count."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

LOSES = ("tensor-parallel collectives",)


def tensor_parallel_mlp(x, w1, b1, w2, b2, mesh):
    def on_one_device(x, w1, b1, w2, b2):
        part = jax.nn.relu(x @ w1 + b1) @ w2
        again = jax.lax.map(lambda number: jax.lax.psum(number, "model"), part.reshape(-1)).reshape(part.shape)
        out = jax.lax.psum(part, "model")
        return jnp.where(jnp.abs(out) >= 0, again, out) + b2

    specs = (P(), P(None, "model"), P("model"), P("model", None), P())
    return jax.shard_map(on_one_device, mesh=mesh, in_specs=specs, out_specs=P())(x, w1, b1, w2, b2)
