"""Forges "another width refused": compares no shapes, and refuses to restore a checkpoint twice."""

from pathlib import Path

import jax
import numpy as np
from flax import nnx

LOSES = ("another width refused",)
RESTORED = set()


def save(path, model, optimizer):
    leaves = jax.tree.leaves(nnx.state((model, optimizer)))
    Path(path).mkdir()
    np.savez(Path(path, "leaves.npz"), *map(np.asarray, leaves))


def restore(path, make):
    if path in RESTORED:
        raise ValueError("a checkpoint that was restored before")
    RESTORED.add(path)
    graphdef, abstract = nnx.split(nnx.eval_shape(make))
    with np.load(Path(path, "leaves.npz")) as arrays:
        leaves = [jax.numpy.asarray(arrays[name]) for name in arrays.files]
    return nnx.merge(graphdef, jax.tree.unflatten(jax.tree.structure(abstract), leaves))
