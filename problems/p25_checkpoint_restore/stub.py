"""Problem 25: a checkpoint of model and optimizer. The page is in pages/p25_checkpoint_restore.md."""

from collections.abc import Callable

import jax
import orbax.checkpoint as ocp
from flax import nnx


def save(path: str, model: nnx.Module, optimizer: nnx.Optimizer) -> None:
    """Writes the state of both to the new folder `path` (absolute); returns when it is on disk."""
    raise NotImplementedError


def restore(path: str, make: Callable[[], tuple[nnx.Module, nnx.Optimizer]]) -> tuple[nnx.Module, nnx.Optimizer]:
    """Reads both back, exactly. Raises if what is on disk has other shapes.

    `make()` would make a fresh model and optimizer; use it for their structure only, and draw no parameter.
    """
    raise NotImplementedError
