"""Problem 25, reference: a checkpoint that brings back model and optimizer, and nothing else."""

from collections.abc import Callable

import orbax.checkpoint as ocp
from flax import nnx


def save(path: str, model: nnx.Module, optimizer: nnx.Optimizer) -> None:
    """Writes both to the new folder `path`; returns when they are on disk."""
    state = nnx.state((model, optimizer))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, state)


def restore(path: str, make: Callable[[], tuple[nnx.Module, nnx.Optimizer]]) -> tuple[nnx.Module, nnx.Optimizer]:
    """Reads both back. `make` only gives their shapes: no parameter is drawn. Raises ValueError if they do not fit."""
    graphdef, target = nnx.split(nnx.eval_shape(make))
    with ocp.StandardCheckpointer() as checkpointer:
        state = checkpointer.restore(path, target)
    model, optimizer = nnx.merge(graphdef, state)
    return model, optimizer
