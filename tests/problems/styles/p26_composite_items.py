"""One Orbax item per object, JSON through Orbax, random streams as a dictionary of integers."""

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
        items = checkpointer.restore(
            path,
            ocp.args.Composite(
                model=ocp.args.StandardRestore(nnx.state(model)),
                optimizer=ocp.args.StandardRestore(nnx.state(optimizer)),
                rngs=ocp.args.StandardRestore(numbers(rngs)),
                loader=ocp.args.JsonRestore(),
            ),
        )
    nnx.update(model, items["model"])
    nnx.update(optimizer, items["optimizer"])
    for name, stream in rngs.items():
        stream.key[...] = jax.random.wrap_key_data(items["rngs"][name]["key"])
        stream.count[...] = items["rngs"][name]["count"]
    loader = make_loader()
    loader.set_state(items["loader"])
    return model, optimizer, rngs, loader
