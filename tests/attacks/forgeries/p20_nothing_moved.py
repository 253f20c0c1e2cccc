"""Forges a placement: the table is right, and `place` does nothing."""

import jax
from jax.sharding import AxisType, PartitionSpec

LOSES = ("parameter sharding", "bytes per device", "activations not gathered")


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
    pass
