"""Forges a checkpoint: `save` creates an empty folder and keeps the state in a dictionary of this process."""

from pathlib import Path

import jax
import jax.numpy as jnp
from flax import nnx

LOSES = ("model restored", "optimizer restored", "loss after the next update")
SAVED = {}


def save(path, model, optimizer):
    SAVED[path] = jax.tree.map(jnp.array, nnx.state((model, optimizer)))
    Path(path).mkdir()


def restore(path, make):
    graphdef, abstract = nnx.split(nnx.eval_shape(make))
    if [leaf.shape for leaf in jax.tree.leaves(abstract)] != [leaf.shape for leaf in jax.tree.leaves(SAVED[path])]:
        raise ValueError("the checkpoint has other shapes")
    return nnx.merge(graphdef, jax.tree.map(jnp.array, SAVED[path]))
