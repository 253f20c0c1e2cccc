"""Problem 27: a checkpoint restored onto another mesh.

The page is in pages/p27_reshard_on_restore.md.
"""

from collections.abc import Callable

import jax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def save(path: str, model: nnx.Module, optimizer: nnx.Optimizer) -> None:
    """Writes the whole state of both to the new folder `path` (absolute).
    Returns when it is on disk."""
    raise NotImplementedError


def restore_on(
    path: str, make: Callable[[], tuple[nnx.Module, nnx.Optimizer]], mesh: Mesh
) -> tuple[nnx.Module, nnx.Optimizer]:
    """Returns both as they were saved, with the last axis of every array sharded
    over the mesh axis `model`.

    `make()` makes a fresh pair. Use it for their structure and shapes
    only; never run it for real.
    """
    raise NotImplementedError
