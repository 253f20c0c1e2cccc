"""Problem 27: a checkpoint restored onto other devices. The page is in pages/p27_reshard_on_restore.md."""

from collections.abc import Callable

import jax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def save(path: str, model: nnx.Module, optimizer: nnx.Optimizer) -> None:
    """Writes the state of both to the new folder `path` (absolute); returns when it is on disk."""
    raise NotImplementedError


def restore_on(
    path: str, make: Callable[[], tuple[nnx.Module, nnx.Optimizer]], mesh: Mesh
) -> tuple[nnx.Module, nnx.Optimizer]:
    """Both, exactly, with the last axis of every array over the mesh axis `model`.

    `make()` would make a fresh pair; use it for their structure only.
    """
    raise NotImplementedError
