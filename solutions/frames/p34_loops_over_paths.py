"""Loops over flat states, pure dictionaries, filters by functions of the path."""

import jax.numpy as jnp
from flax import nnx


def average(a, b):
    new = nnx.clone(a)
    theirs = dict(nnx.to_flat_state(nnx.state(b, nnx.Param)))
    for path, variable in nnx.to_flat_state(nnx.state(new, nnx.Param)):
        variable[...] = 0.5 * variable[...] + 0.5 * theirs[path][...]
    return new


def copy_part(model, source, name):
    def wanted(path, variable):
        return path[0] == name and isinstance(variable, nnx.Param)

    nnx.update(model, nnx.state(source, wanted))


def snapshot(model, optimizer):
    return [
        {path: jnp.array(variable[...]) for path, variable in nnx.to_flat_state(nnx.state(each))}
        for each in (model, optimizer)
    ]


def restore(model, optimizer, saved):
    for each, numbers in zip((model, optimizer), saved, strict=True):
        for path, variable in nnx.to_flat_state(nnx.state(each)):
            variable[...] = numbers[path]
