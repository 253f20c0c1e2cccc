"""Clones of the objects themselves as the snapshot; the average as a weighted tree."""

import jax
import jax.numpy as jnp
from flax import nnx


def average(a, b):
    half = lambda x, y: x + (y - x) * 0.5
    new = nnx.clone(a)
    nnx.update(new, jax.tree.map(half, nnx.state(a, nnx.Param), nnx.state(b, nnx.Param)))
    return new


def copy_part(model, source, name):
    _, params, _ = nnx.split(getattr(source, name), nnx.Param, ...)
    nnx.update(getattr(model, name), jax.tree.map(jnp.copy, params))


def snapshot(model, optimizer):
    return {"model": nnx.clone(model), "optimizer": nnx.clone(optimizer)}


def restore(model, optimizer, saved):
    nnx.update(model, nnx.state(saved["model"]))
    nnx.update(optimizer, nnx.state(saved["optimizer"]))
