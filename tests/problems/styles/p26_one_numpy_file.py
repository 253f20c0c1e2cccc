"""Without Orbax: one .npz file with every leaf named by its path, and the loader's state as an array of text."""

import json
import os

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx


def flat(objects):
    return nnx.to_flat_state(nnx.state(objects))


def save(path, model, optimizer, rngs, loader):
    os.makedirs(path)
    arrays = {}
    for name, node in {"model": model, "optimizer": optimizer, "rngs": rngs}.items():
        for keys, variable in flat(node):
            value = variable.get_raw_value()
            if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
                value = jax.random.key_data(value)
            arrays["/".join([name, *map(str, keys)])] = np.asarray(value)
    arrays["loader"] = np.array(json.dumps(loader.get_state()))
    with open(os.path.join(path, "all.npz"), "wb") as file:
        np.savez(file, **arrays)


def resume(path, make, make_loader):
    objects = dict(zip(("model", "optimizer", "rngs"), make()))
    with np.load(os.path.join(path, "all.npz")) as stored:
        for name, node in objects.items():
            new = []
            for keys, variable in flat(node):
                value = jnp.asarray(stored["/".join([name, *map(str, keys)])])
                if jnp.issubdtype(variable.get_raw_value().dtype, jax.dtypes.prng_key):
                    value = jax.random.wrap_key_data(value)
                new.append((keys, variable.replace(value)))
            nnx.update(node, nnx.from_flat_state(new))
        loader = make_loader()
        loader.set_state(json.loads(str(stored["loader"])))
    return (*objects.values(), loader)
