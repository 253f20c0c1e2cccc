"""Forges a resume: the folder at `path` is empty, and the run lies in a file outside of it."""

import pickle
from pathlib import Path

import jax
import numpy as np
from flax import nnx

LOSES = (
    "same batches", "same random numbers", "same losses, bit for bit", "same model, bit for bit",
    "same optimizer, bit for bit",
)  # fmt: skip


def elsewhere(path):
    return Path(f"{path}-elsewhere")


def is_key(leaf):
    return jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def save(path, model, optimizer, rngs, loader):
    leaves = jax.tree.leaves(nnx.state((model, optimizer, rngs)))
    arrays = [np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf) for leaf in leaves]
    elsewhere(path).write_bytes(pickle.dumps((arrays, loader.get_state())))
    Path(path).mkdir()


def resume(path, make, make_loader):
    arrays, position = pickle.loads(elsewhere(path).read_bytes())
    graphdef, abstract = nnx.split(nnx.eval_shape(make))
    likes, tree = jax.tree.flatten(abstract)
    leaves = [
        jax.random.wrap_key_data(x) if is_key(like) else jax.numpy.asarray(x)
        for x, like in zip(arrays, likes, strict=True)
    ]
    loader = make_loader()
    loader.set_state(position)
    return (*nnx.merge(graphdef, jax.tree.unflatten(tree, leaves)), loader)
