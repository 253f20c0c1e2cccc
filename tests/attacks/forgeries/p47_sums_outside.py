"""Forges the psum: each device returns its partial sum, and XLA adds them up outside of shard_map."""

import jax
from jax.sharding import PartitionSpec as P

LOSES = ("tensor-parallel collectives",)


def tensor_parallel_mlp(x, w1, b1, w2, b2, mesh):
    def body(x, w1, b1, w2):
        return (jax.nn.relu(x @ w1 + b1) @ w2)[None]

    specs = (P(), P(None, "model"), P("model"), P("model", None))
    return jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P("model"))(x, w1, b1, w2).sum(0) + b2
