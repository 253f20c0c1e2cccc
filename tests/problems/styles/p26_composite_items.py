"""Orbax items for each object, JSON by Orbax too; the random streams as a plain dictionary of numbers."""

import jax
import numpy as np
import orbax.checkpoint as ocp
from flax import nnx


def numbers(rngs):
    return {
        name: {"key": np.asarray(jax.random.key_data(stream.key[...])), "count": np.asarray(stream.count[...])}
        for name, stream in rngs.items()
    }


def save(path, model, optimizer, rngs, loader):
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        checkpointer.save(
            path,
            ocp.args.Composite(
                model=ocp.args.StandardSave(nnx.state(model)),
                optimizer=ocp.args.StandardSave(nnx.state(optimizer)),
                rngs=ocp.args.StandardSave(numbers(rngs)),
                loader=ocp.args.JsonSave(loader.get_state()),
            ),
        )


def resume(path, make, make_loader):
    model, optimizer, rngs = make()
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        found = checkpointer.restore(
            path,
            ocp.args.Composite(
                model=ocp.args.StandardRestore(nnx.state(model)),
                optimizer=ocp.args.StandardRestore(nnx.state(optimizer)),
                rngs=ocp.args.StandardRestore(numbers(rngs)),
                loader=ocp.args.JsonRestore(),
            ),
        )
    nnx.update(model, found["model"])
    nnx.update(optimizer, found["optimizer"])
    for name, stream in rngs.items():
        stream.key[...] = jax.random.wrap_key_data(found["rngs"][name]["key"])
        stream.count[...] = found["rngs"][name]["count"]
    loader = make_loader()
    loader.set_state(found["loader"])
    return model, optimizer, rngs, loader
