"""Forges "tensor-parallel collectives": each sum runs five times, in a loop whose body stands once in the program."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

LOSES = ("tensor-parallel collectives",)


def tensor_parallel_mlp(x, w1, b1, w2, b2, mesh):
    def on_one_device(x, w1, b1, w2, b2):
        part = jax.nn.relu(x @ w1 + b1) @ w2
        add = lambda i, y: jax.lax.psum(part + 0 * y, "model")  # noqa: E731
        return jax.lax.fori_loop(0, 5, add, jnp.zeros(part.shape)) + b2

    specs = (P(), P(None, "model"), P("model"), P("model", None), P())
    return jax.shard_map(on_one_device, mesh=mesh, in_specs=specs, out_specs=P())(x, w1, b1, w2, b2)
