"""Arrays without variables: tree maps and nnx.as_pure."""

import jax
import jax.numpy as jnp
from flax import nnx


def average(a, b):
    graph, *states = nnx.split(a, nnx.Param, nnx.Not(nnx.Param))
    params, others = (jax.tree.map(jnp.copy, state) for state in states)
    params = jax.tree.map(lambda x, y: jnp.mean(jnp.stack([x, y]), axis=0), params, nnx.state(b, nnx.Param))
    return nnx.merge(graph, params, others)


def copy_part(model, source, name):
    filters = nnx.All(nnx.Param, lambda path, value: path[:1] == (name,))
    nnx.update(model, nnx.as_pure(nnx.state(source, filters)))


def snapshot(model, optimizer):
    return nnx.as_pure(nnx.state(model)), nnx.as_pure(nnx.state(optimizer))


def restore(model, optimizer, saved):
    for target, state in zip((model, optimizer), saved):
        nnx.update(target, state)
