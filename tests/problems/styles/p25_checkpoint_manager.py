"""Orbax's CheckpointManager, which numbers checkpoints by step; a run has one in each folder here."""

import orbax.checkpoint as ocp
from flax import nnx


def save(path, model, optimizer):
    with ocp.CheckpointManager(path) as manager:
        manager.save(0, args=ocp.args.StandardSave(nnx.state((model, optimizer))))


def restore(path, make):
    graphdef, target = nnx.split(nnx.eval_shape(make))
    with ocp.CheckpointManager(path) as manager:
        state = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore(target))
    return nnx.merge(graphdef, state)
