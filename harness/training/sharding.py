"""Where arrays lie on a mesh of devices: `data` shares the batch, `model` shares the width of the layers.

A rule by the name of the parameter, so that the moments of the optimizer, whose paths end alike, lie where their parameter
does.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from harness.config import Config
from harness.errors import UsageError

# Name -> the axis shared over `model`, counted from the end; of two that end alike the longer counts.
MODEL_AXIS = {
    "embed": -2,
    "head": -2,
    "head_bias": -1,
    "qkv.kernel": -2,
    "qkv.bias": -2,
    "out.kernel": -3,
    "ff1.kernel": -1,
    "ff1.bias": -1,
    "ff2.kernel": -2,
    # the pieces of the course
    "embed.embedding": -2,
    "q_proj.kernel": -1,
    "k_proj.kernel": -1,
    "v_proj.kernel": -1,
    "out_proj.kernel": -2,
}


def make_mesh(config: Config) -> Mesh:
    """The mesh of the config, `data` x `model`; `auto` takes all devices that can share the batch, along `data`.

    Raises UsageError if there are too few devices, or if they cannot share the batch or the heads evenly.
    """
    devices = jax.devices()
    per_step = config.batch_size // config.accumulate
    data, model = config.mesh_shape or (math.gcd(len(devices), per_step), 1)
    if data * model > len(devices) or (jax.process_count() > 1 and data * model != len(devices)):
        hint = f" To try it without, set JAX_NUM_CPU_DEVICES={data * model}." if devices[0].platform == "cpu" else ""
        raise UsageError(f"mesh={data}x{model} needs {data * model} devices; there are {len(devices)}.{hint}")
    if per_step % data:
        raise UsageError(f"mesh={data}x{model}: {data} devices cannot share {per_step} rows at a time evenly.")
    if config.num_layers and config.num_heads % model:
        raise UsageError(f"mesh={data}x{model}: {model} devices cannot share {config.num_heads} heads evenly.")
    return jax.make_mesh(
        (data, model), ("data", "model"), axis_types=(AxisType.Auto,) * 2, devices=devices[: data * model]
    )


def path_names(path: tuple[Any, ...]) -> tuple[str, ...]:
    """The keys of a path in a tree of NNX state, without the step into the variable itself."""
    names = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", "")))) for key in path]
    return tuple(name for name in names if name not in ("value", "raw_value"))


def spec(names: tuple[str, ...], shape: tuple[int, ...], mesh: Mesh, fsdp: bool) -> P:
    """The partition of one array: replicated on an axis that does not divide it."""
    axes: list[str | None] = [None] * len(shape)
    dotted = MODEL_AXIS.get(".".join(names[-2:]), MODEL_AXIS.get(names[-1] if names else ""))
    if dotted is not None and len(shape) >= -dotted and shape[dotted] % mesh.shape["model"] == 0:
        axes[dotted] = "model"
    if fsdp and len(shape) >= 2:
        free = [axis for axis in range(len(shape)) if axes[axis] is None and shape[axis] % mesh.shape["data"] == 0]
        layers = "blocks" in names and not any(name.isdecimal() for name in names)  # the scanned axis stays whole
        free = [axis for axis in free if not (layers and axis == 0)]
        if free:
            axes[max(free, key=lambda axis: shape[axis])] = "data"
    while axes and axes[-1] is None:
        axes.pop()
    return P(*axes)


# (names, shape, mesh) -> the partition of the array that ends the path of names
Spec = Callable[[tuple[str, ...], tuple[int, ...], Mesh], P]


def shardings(abstract: Any, mesh: Mesh, fsdp: bool, theirs: Spec | None = None) -> Any:
    """A NamedSharding for each array of an abstract tree of model and optimizer, by `spec` or by somebody else's."""
    rule: Spec = theirs or (lambda names, shape, mesh: spec(names, shape, mesh, fsdp))
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: NamedSharding(mesh, rule(path_names(path), leaf.shape, mesh)), abstract
    )


def put_batch(rows: Any, mesh: Mesh) -> jax.Array:
    """This process's rows of a batch as one array over `data`; the copy to the devices is not waited for."""
    return jax.make_array_from_process_local_data(NamedSharding(mesh, P("data")), rows)
