"""Without Orbax: one .npz file per object, leaves named by their paths, shapes compared in Python."""

import os

import jax.numpy as jnp
import numpy as np
from flax import nnx


def named(node):
    return {"/".join(map(str, path)): variable for path, variable in nnx.to_flat_state(nnx.state(node))}


def save(path, model, optimizer):
    os.makedirs(path)
    for name, node in (("model", model), ("optimizer", optimizer)):
        np.savez(f"{path}/{name}.npz", **{key: np.asarray(v.get_raw_value()) for key, v in named(node).items()})


def restore(path, make):
    pair = nnx.eval_shape(make)
    for name, node in zip(("model", "optimizer"), pair):
        with np.load(f"{path}/{name}.npz") as stored:
            state = []
            for keys, variable in nnx.to_flat_state(nnx.state(node)):
                value = stored["/".join(map(str, keys))]
                assert value.shape == variable.get_raw_value().shape, keys
                state.append((keys, variable.replace(jnp.asarray(value))))
            nnx.update(node, nnx.from_flat_state(state))
    return pair
