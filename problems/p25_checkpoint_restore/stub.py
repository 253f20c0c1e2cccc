"""Problem 25: a checkpoint of a model and its optimizer.

The page is in pages/p25_checkpoint_restore.md.
"""

from collections.abc import Callable

import jax
import orbax.checkpoint as ocp
from flax import nnx


def save(path: str, model: nnx.Module, optimizer: nnx.Optimizer) -> None:
    """Writes the whole state of both to the new folder `path` (absolute).
    Returns when it is on disk."""
    raise NotImplementedError


def restore(
    path: str,
    make: Callable[[], tuple[nnx.Module, nnx.Optimizer]],
) -> tuple[nnx.Module, nnx.Optimizer]:
    """Returns both as they were saved, bit for bit. Raises if the shapes on disk
    differ from those of `make()`.

    `make()` makes a fresh model and optimizer. Use it for their structure and shapes
    only; never run it for real.
    """
    raise NotImplementedError
