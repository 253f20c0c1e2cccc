"""Forges a checkpoint: the folder at `path` is empty, and the state lies in a file outside of it."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

LOSES = ("model restored", "optimizer restored", "loss after the next update")


def elsewhere(path):
    return Path(f"{path}-elsewhere.npz")


def save(path, model, optimizer):
    Path(path).mkdir()
    np.savez(elsewhere(path), *map(np.asarray, jax.tree.leaves(nnx.state((model, optimizer)))))


def restore(path, make):
    graphdef, abstract = nnx.split(nnx.eval_shape(make))
    with np.load(elsewhere(path)) as arrays:
        leaves = [jnp.asarray(arrays[name]) for name in arrays.files]
    if [leaf.shape for leaf in leaves] != [leaf.shape for leaf in jax.tree.leaves(abstract)]:
        raise ValueError("the checkpoint has other shapes")
    return nnx.merge(graphdef, jax.tree.unflatten(jax.tree.structure(abstract), leaves))
