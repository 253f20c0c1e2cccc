"""Problem 20, reference: mesh and partitioning."""

import jax
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

BY_COLUMNS = ("q_proj", "k_proj", "v_proj", "ff1")
BY_ROWS = ("out_proj", "ff2")


def make_mesh(data: int, model: int) -> Mesh:
    """A grid of the first data x model devices."""
    devices = jax.devices()[: data * model]
    return jax.make_mesh((data, model), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto), devices=devices)


def partition_spec(path: str, shape: tuple[int, ...], mesh: Mesh) -> PartitionSpec:
    """Shards the first product of a pair by columns, the second by rows (Shoeybi et al. 2019, Megatron-LM)."""
    layer, name = ("", *path.split("."))[-2:]
    axes: list[str | None] = [None] * len(shape)
    if layer in BY_COLUMNS:
        axes[-1] = "model"
    elif (layer in BY_ROWS and name == "kernel") or name == "embedding":
        axes[0] = "model"
    fits = [
        axis if axis is None or size % mesh.shape[axis] == 0 else None for axis, size in zip(axes, shape, strict=True)
    ]
    return PartitionSpec(*fits)


def place(model: nnx.Module, mesh: Mesh) -> None:
    """Moves each parameter to the sharding for its name."""
    flat = nnx.to_flat_state(nnx.state(model))
    moved = []
    for path, variable in flat:
        value = variable.get_raw_value()
        spec = partition_spec(".".join(map(str, path)), value.shape, mesh)
        moved.append((path, variable.replace(jax.device_put(value, NamedSharding(mesh, spec)))))
    nnx.update(model, nnx.from_flat_state(moved))
