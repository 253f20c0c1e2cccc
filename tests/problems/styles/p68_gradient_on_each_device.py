"""Ticks in a Python loop; the gradient is taken on each device, of its own part of the loss."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P


def forward_schedule(stages, microbatches):
    table = np.full((microbatches + stages - 1, stages), -1, np.int32)
    for m in range(microbatches):
        for s in range(stages):
            table[m + s, s] = m
    return table


def pipeline_step(stage, loss, parameters, x, targets, mesh):
    S, M = mesh.shape["stage"], x.shape[0]

    def device(parameters, x, targets):
        s = jax.lax.axis_index("stage")

        def part_of_loss(own):
            y, losses = jnp.zeros_like(x[0]), []
            for t in range(M + S - 1):
                received = jax.lax.ppermute(y, "stage", [(i, (i + 1) % S) for i in range(S)]) if t else y
                y = stage(own, jax.lax.select(s == 0, x[t] if t < M else jnp.zeros_like(y), received))
                if t >= S - 1:
                    losses.append(loss(y, targets[t - S + 1]))
            return jnp.where(s == S - 1, sum(losses) / M, 0.0)

        value, slopes = jax.value_and_grad(part_of_loss)(_first(parameters))
        return jax.lax.psum(value, "stage"), jax.tree.map(lambda g: g[None], slopes)

    return jax.shard_map(
        device, mesh=mesh, in_specs=(P("stage"), P(), P()), out_specs=(P(), P("stage")), check_vma=False
    )(parameters, x, targets)


def _first(tree):
    return jax.tree.map(lambda leaf: leaf[0], tree)
