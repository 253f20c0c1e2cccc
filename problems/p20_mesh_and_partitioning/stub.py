"""Problem 20: which device holds what. The page is in pages/p20_mesh_and_partitioning.md."""

import jax
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec


def make_mesh(data: int, model: int) -> Mesh:
    """A mesh of data x model devices, its axes named so, of type Auto."""
    raise NotImplementedError


def partition_spec(path: str, shape: tuple[int, ...], mesh: Mesh) -> PartitionSpec:
    """How a parameter of MiniGPT is cut. `path` is its dotted name. An axis that does not divide is left whole."""
    raise NotImplementedError


def place(model: nnx.Module, mesh: Mesh) -> None:
    """Puts every parameter where `partition_spec` says, in place."""
    raise NotImplementedError
