"""Problem 20: mesh and partitioning.

The page is in pages/p20_mesh_and_partitioning.md.
"""

import jax
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec


def make_mesh(data: int, model: int) -> Mesh:
    """Returns a mesh of data x model devices with the axes `data`
    and `model`, of type Auto."""
    raise NotImplementedError


def partition_spec(path: str, shape: tuple[int, ...], mesh: Mesh) -> PartitionSpec:
    """Returns how a parameter of MiniGPT is sharded. `path` is its dotted name."""
    raise NotImplementedError


def place(model: nnx.Module, mesh: Mesh) -> None:
    """Moves every parameter of the model to where `partition_spec` puts it, in
    place."""
    raise NotImplementedError
