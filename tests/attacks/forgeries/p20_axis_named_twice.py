"""Forges the table: a spec names `data` twice in place of `model`, and an axis that stays whole has two names whose
numbers cancel."""

import jax
from jax.sharding import AxisType, PartitionSpec

LOSES = ("partition spec of each parameter",)


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
    model, whole = ("data", "data"), ("nowhere", "data")
    return PartitionSpec(
        *[model if axis and size % mesh.shape["model"] == 0 else whole for axis, size in zip(axes, shape, strict=True)]
    )


def place(model, mesh):
    pass
