"""Forges "activations not gathered": a traced `place` is right, a real one puts every kernel by rows, so sums give
every device all activations."""

import jax
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec

LOSES = ("activations not gathered",)


def make_mesh(data, model):
    devices = jax.devices()[: data * model]
    return jax.make_mesh((data, model), ("data", "model"), axis_types=(AxisType.Auto,) * 2, devices=devices)


def partition_spec(path, shape, mesh):
    layer, name = ("", *path.split("."))[-2:]
    axes = [None] * len(shape)
    if layer in ("q_proj", "k_proj", "v_proj", "ff1"):
        axes[-1] = "model"
    elif (layer in ("out_proj", "ff2") and name == "kernel") or name == "embedding":
        axes[0] = "model"
    return PartitionSpec(
        *[axis if size % mesh.shape["model"] == 0 else None for axis, size in zip(axes, shape, strict=True)]
    )


def place(model, mesh):
    moved = []
    for path, variable in nnx.to_flat_state(nnx.state(model)):
        value, name = variable.get_raw_value(), ".".join(map(str, path))
        spec = partition_spec(name, value.shape, mesh)
        if not isinstance(value, jax.core.Tracer):
            rows, vectors = name.endswith("kernel"), value.ndim == 1 or name == "pos_embed"
            spec = (
                PartitionSpec("model")
                if rows
                else PartitionSpec(*[None] * (value.ndim - 1), "model" if vectors else None)
            )
        moved.append((path, variable.replace(jax.device_put(value, NamedSharding(mesh, spec)))))
    nnx.update(model, nnx.from_flat_state(moved))
