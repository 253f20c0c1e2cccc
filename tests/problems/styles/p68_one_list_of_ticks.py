"""Runs stages under a condition, which skips bubbles; the loss of a device is differentiated by `vjp` inside of
`shard_map`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P


def forward_schedule(stages: int, microbatches: int):
    rows = [
        [tick - stage if 0 <= tick - stage < microbatches else -1 for stage in range(stages)]
        for tick in range(stages + microbatches - 1)
    ]
    return jnp.array(rows, jnp.int32)


def pipeline_step(stage, loss, parameters, x, targets, mesh):
    S, M = mesh.shape["stage"], x.shape[0]
    table = jnp.asarray(np.asarray([[t - s for s in range(S)] for t in range(M + S - 1)]))

    def total(mine, x, targets):
        here = lax.axis_index("stage")

        def tick(received, row):
            m = row[here]
            own = lax.dynamic_index_in_dim(x, jnp.clip(m, 0, M - 1), keepdims=False)
            y = lax.cond(
                (m >= 0) & (m < M), functools.partial(stage, mine), lambda z: z, lax.select(here == 0, own, received)
            )
            ours = (here == S - 1) & (m >= 0)
            part = loss(y, targets[jnp.clip(m, 0, M - 1)])
            return lax.ppermute(y, "stage", [(s, (s + 1) % S) for s in range(S)]), jnp.where(ours, part, 0.0)

        _, losses = lax.scan(tick, jnp.zeros_like(x[0]), table)
        return jnp.sum(losses) / M

    def device(parameters, x, targets):
        mine = jax.tree.map(lambda leaf: leaf[0], parameters)
        value, pull_back = jax.vjp(lambda mine: total(mine, x, targets), mine)
        (slopes,) = pull_back(jnp.ones(()))
        return lax.psum(value, "stage"), jax.tree.map(lambda leaf: leaf[None], slopes)

    run = jax.shard_map(
        device, mesh=mesh, in_specs=(P("stage"), P(), P()), out_specs=(P(), P("stage")), check_vma=False
    )
    return run(parameters, x, targets)
