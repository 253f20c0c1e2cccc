"""Model and optimizer as two items of a composite checkpoint, restored with explicit arguments."""

import jax
import orbax.checkpoint as ocp
from flax import nnx


def save(path, model, optimizer):
    checkpointer = ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler())
    items = ocp.args.Composite(
        model=ocp.args.StandardSave(nnx.state(model)), optimizer=ocp.args.StandardSave(nnx.state(optimizer))
    )
    checkpointer.save(path, args=items)
    checkpointer.wait_until_finished()
    checkpointer.close()


def restore(path, make):
    model, optimizer = nnx.eval_shape(make)
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        items = checkpointer.restore(
            path,
            args=ocp.args.Composite(
                model=ocp.args.StandardRestore(nnx.state(model)),
                optimizer=ocp.args.StandardRestore(nnx.state(optimizer)),
            ),
        )
    nnx.update(model, items["model"])
    nnx.update(optimizer, items["optimizer"])
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(nnx.state(model)))
    return model, optimizer
