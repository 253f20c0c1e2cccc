"""A dictionary of plain arrays on disk, restored with a sharding for each leaf."""

import jax
import numpy as np
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def save(path, model, optimizer):
    tree = {"model": nnx.to_pure_dict(nnx.state(model)), "optimizer": nnx.to_pure_dict(nnx.state(optimizer))}
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, tree)


def sharding(mesh, shape):
    if shape and shape[-1] % mesh.shape["model"] == 0:
        return NamedSharding(mesh, P(*(None,) * (len(shape) - 1), "model"))
    return NamedSharding(mesh, P())


def restore_on(path, make, mesh):
    model, optimizer = nnx.eval_shape(make)
    tree = {"model": nnx.to_pure_dict(nnx.state(model)), "optimizer": nnx.to_pure_dict(nnx.state(optimizer))}
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding(mesh, x.shape)), tree)
    with ocp.StandardCheckpointer() as checkpointer:
        arrays = checkpointer.restore(path, abstract)
    assert np.all([isinstance(x, jax.Array) for x in jax.tree.leaves(arrays)])
    for node, name in ((model, "model"), (optimizer, "optimizer")):
        state = nnx.state(node)
        nnx.replace_by_pure_dict(state, arrays[name])
        nnx.update(node, state)
    return model, optimizer
