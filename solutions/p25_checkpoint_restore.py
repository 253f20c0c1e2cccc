"""Problem 25, reference: a checkpoint of a model and its optimizer."""

from collections.abc import Callable

import orbax.checkpoint as ocp
from flax import nnx


def save(path: str, model: nnx.Module, optimizer: nnx.Optimizer) -> None:
    """Writes the whole state of both to the new folder `path`. Returns when it is on disk."""
    state = nnx.state((model, optimizer))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, state)


def restore(path: str, make: Callable[[], tuple[nnx.Module, nnx.Optimizer]]) -> tuple[nnx.Module, nnx.Optimizer]:
    """Restores both into an abstract target, so `make` never runs for real. Raises ValueError if a shape differs."""
    graphdef, target = nnx.split(nnx.eval_shape(make))
    with ocp.StandardCheckpointer() as checkpointer:
        state = checkpointer.restore(path, target)
    model, optimizer = nnx.merge(graphdef, state)
    return model, optimizer
