"""Shardings over a mesh of devices: the batch over `data`, the width of the layers over `model`.

The rule goes by the name of the parameter. The optimizer's moments, whose paths end in the same names, are sharded alike.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from harness.config import Config
from harness.errors import UsageError
from harness.model.lora import base_path

# Name -> the axis sharded over `model`, counted from the end. If two names match, the longer one applies.
MODEL_AXIS = {
    "embed": -2,
    "head": -2,
    "head_bias": -1,
    "qkv.kernel": -2,
    "qkv.bias": -2,
    "q.kernel": -2,
    "q.bias": -2,
    "kv.kernel": -2,
    "kv.bias": -2,
    "out.kernel": -3,
    "ff1.kernel": -1,
    "ff1.bias": -1,
    "gate.kernel": -1,
    "gate.bias": -1,
    "ff2.kernel": -2,
    # the pieces of the course
    "embed.embedding": -2,
    "q_proj.kernel": -1,
    "k_proj.kernel": -1,
    "v_proj.kernel": -1,
    "out_proj.kernel": -2,
}


def make_mesh(config: Config) -> Mesh:
    """The mesh of the config, `data` x `model`. `auto` puts as many devices along `data` as divide the batch.

    Raises UsageError if there are too few devices, or if they cannot split the batch or the heads evenly.
    """
    devices = jax.devices()
    rows = config.batch_size // config.grad_accumulation_steps
    data, model = config.mesh_shape or (math.gcd(len(devices), rows), 1)
    if data * model > len(devices) or (jax.process_count() > 1 and data * model != len(devices)):
        hint = (
            f" To emulate them on this CPU, set JAX_NUM_CPU_DEVICES={data * model}."
            if devices[0].platform == "cpu"
            else ""
        )
        raise UsageError(f"mesh={data}x{model} needs {data * model} devices; there are {len(devices)}.{hint}")
    if rows % data:
        raise UsageError(
            f"mesh={data}x{model} is not valid; {rows} rows per step cannot be split evenly over {data} devices."
        )
    if config.num_layers and config.num_heads % model:
        raise UsageError(
            f"mesh={data}x{model} is not valid; {config.num_heads} heads cannot be split evenly over {model} devices."
        )
    return jax.make_mesh(
        (data, model), ("data", "model"), axis_types=(AxisType.Auto,) * 2, devices=devices[: data * model]
    )


def path_names(path: tuple[Any, ...]) -> tuple[str, ...]:
    """The keys of a path in a tree of NNX state, without the key of the array inside its variable."""
    names = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", "")))) for key in path]
    return tuple(name for name in names if name not in ("value", "raw_value"))


def by_dotted_name(tree: Any) -> dict[str, Any]:
    """The leaves of a state by dotted name."""
    return {".".join(path_names(path)): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def default_rule(names: tuple[str, ...], shape: tuple[int, ...], mesh: Mesh, fsdp: bool) -> P:
    """The partition of one array. An axis that the mesh does not divide is replicated."""
    axes: list[str | None] = [None] * len(shape)
    names = base_path(names)
    dotted = MODEL_AXIS.get(".".join(names[-2:]), MODEL_AXIS.get(names[-1] if names else ""))
    if dotted is not None and len(shape) >= -dotted and shape[dotted] % mesh.shape["model"] == 0:
        axes[dotted] = "model"
    if fsdp and len(shape) >= 2:
        free = [axis for axis in range(len(shape)) if axes[axis] is None and shape[axis] % mesh.shape["data"] == 0]
        stacked = "blocks" in names and not any(name.isdecimal() for name in names)
        free = [axis for axis in free if not (stacked and axis == 0)]  # the scan runs over axis 0
        if free:
            axes[max(free, key=lambda axis: shape[axis])] = "data"
    while axes and axes[-1] is None:
        axes.pop()
    return P(*axes)


# (path of names, shape, mesh) -> the partition of the array at the end of the path
ShardingRule = Callable[[tuple[str, ...], tuple[int, ...], Mesh], P]


def shardings(abstract: Any, mesh: Mesh, fsdp: bool, override: ShardingRule | None = None) -> Any:
    """A NamedSharding for each array of an abstract tree of model and optimizer, by `default_rule` or by `override`."""
    rule: ShardingRule = override or (lambda names, shape, mesh: default_rule(names, shape, mesh, fsdp))
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: NamedSharding(mesh, rule(path_names(path), leaf.shape, mesh)), abstract
    )


def put_batch(rows: Any, mesh: Mesh) -> jax.Array:
    """This process's rows of a batch as one array over `data`. Does not wait for the copy to the devices."""
    return jax.make_array_from_process_local_data(NamedSharding(mesh, P("data")), rows)
