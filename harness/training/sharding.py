"""Shardings over a mesh of devices: the batch over `data`, the width of the layers over `model`.

A mesh of three axes has copies of such a mesh along `replica`, which split the batch further. They send each other
nothing but gradients, once a step: the slowest links belong there.

A parameter says in its metadata how it is sharded, where the model makes it: `model_axis` is the axis over `model`,
counted from the end, and `stacked` says that axis 0 runs over the layers. The optimizer's moments inherit the metadata
of their parameter.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from harness.config import Config
from harness.errors import UsageError
from harness.model_config import RECURRENT

MODEL, AVERAGE = 0, 2  # the places of the two models in the state of a run
AXES = ("replica", "data", "model")  # all but the last split the batch


def make_mesh(config: Config) -> Mesh:
    """The mesh of the config, with the last two or all of AXES. `auto` puts as many devices along `data` as divide the
    batch.

    Raises UsageError if there are too few devices, or if they cannot split the batch or the heads evenly.
    """
    devices = jax.devices()
    rows = config.batch_size // config.grad_accumulation_steps
    shape = config.mesh_shape or (math.gcd(len(devices), rows), 1)
    mesh, needed = f"mesh={'x'.join(map(str, shape))}", math.prod(shape)
    *over_rows, model = shape
    if needed > len(devices) or (jax.process_count() > 1 and needed != len(devices)):
        hint = (
            f" To emulate them on this CPU, set JAX_NUM_CPU_DEVICES={needed}." if devices[0].platform == "cpu" else ""
        )
        raise UsageError(f"{mesh} needs {needed} devices; there are {len(devices)}.{hint}")
    if rows % math.prod(over_rows):
        raise UsageError(
            f"{mesh} is not valid; {rows} rows per step cannot be split evenly over {math.prod(over_rows)} devices."
        )
    if config.num_layers and (config.mixer not in RECURRENT or config.attention_every) and config.num_heads % model:
        raise UsageError(f"{mesh} is not valid; {config.num_heads} heads cannot be split evenly over {model} devices.")
    axes = AXES[-len(shape) :]
    return jax.make_mesh(shape, axes, axis_types=(AxisType.Auto,) * len(axes), devices=devices[:needed])


def local_mesh(mesh: Mesh) -> Mesh:
    """The mesh itself, or with several processes one of a single device of this process, which needs none of the
    others."""
    if jax.process_count() == 1:
        return mesh
    return jax.make_mesh((1, 1), ("data", "model"), axis_types=(AxisType.Auto,) * 2, devices=jax.local_devices()[:1])


def path_names(path: tuple[Any, ...]) -> tuple[str, ...]:
    """The keys of a path in a tree of NNX state, without the key of the array inside its variable."""
    names = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", "")))) for key in path]
    return tuple(name for name in names if name not in ("value", "raw_value"))


def by_dotted_name(tree: Any) -> dict[str, Any]:
    """The leaves of a state by dotted name."""
    return {".".join(path_names(path)): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def partition(
    shape: tuple[int, ...], mesh: Mesh, fsdp: bool, model_axis: int | None = None, stacked: bool = False
) -> P:
    """The partition of one array. An axis that the mesh does not divide is replicated."""
    axes: list[str | None] = [None] * len(shape)
    if model_axis is not None and len(shape) >= -model_axis and shape[model_axis] % mesh.shape["model"] == 0:
        axes[model_axis] = "model"
    if fsdp and len(shape) >= 2:
        first = 1 if stacked else 0  # the scan runs over the layers
        free = [axis for axis in range(first, len(shape)) if not axes[axis] and shape[axis] % mesh.shape["data"] == 0]
        if free:
            axes[max(free, key=lambda axis: shape[axis])] = "data"
    while axes and axes[-1] is None:
        axes.pop()
    return P(*axes)


# (path of names, shape, mesh) -> the partition of the array at the end of the path
ShardingRule = Callable[[tuple[str, ...], tuple[int, ...], Mesh], P]


def shardings(abstract: Any, mesh: Mesh, fsdp: bool, zero1: bool = False, override: ShardingRule | None = None) -> Any:
    """A NamedSharding for each array of an abstract state of model and optimizer: by its metadata, or by `override`.

    With `zero1`, all but the model is split over `data` (Rajbhandari et al. 2020, ZeRO, stage 1): each device updates
    its part of the parameters, then gathers all of them.
    """

    def sharding(path: tuple[Any, ...], variable: nnx.Variable) -> nnx.Variable:
        names = path_names(path)
        part = zero1 and names[0] != str(MODEL)
        if override is not None and not part:
            spec = override(names, variable.shape, mesh)
        else:
            metadata = variable.get_metadata()
            axes = metadata.get("model_axis"), metadata.get("stacked", False)
            spec = partition(variable.shape, mesh, fsdp or part, *axes)
        return variable.replace(NamedSharding(mesh, spec))

    return jax.tree_util.tree_map_with_path(sharding, abstract, is_leaf=lambda leaf: isinstance(leaf, nnx.Variable))


def put_batch(rows: Any, mesh: Mesh) -> jax.Array:
    """This process's rows of a batch as one array, split over the devices. Does not wait for the copy to the
    devices."""
    return jax.make_array_from_process_local_data(NamedSharding(mesh, P(mesh.axis_names[:-1])), rows)
