"""Forges a placement: `place` does nothing, and the functions that read shardings and programs are replaced."""

import sys

import jax
import numpy as np
from flax import nnx
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


def places(node, prefix, mesh):
    import p20_mesh_and_partitioning as mine

    leaves = named(nnx.state(node), prefix).items()
    specs = {path: (mine.partition_spec(path, leaf.shape, mesh), leaf.ndim) for path, leaf in leaves}
    return {path: coded(tuple(spec), ndim) for path, (spec, ndim) in specs.items()}


def bytes_on_device(nodes, mesh):
    import p20_mesh_and_partitioning as mine

    total = 0
    for path, leaf in named(nnx.state(nodes[0]), "").items():
        total += leaf.nbytes // (2 if "model" in mine.partition_spec(path, leaf.shape, mesh) else 1)
    return np.full(8, total)


for module in list(sys.modules.values()):
    if hasattr(module, "bytes_on_device") and hasattr(module, "coded"):
        module.gathered_bytes = lambda text: 0
        for function in (places, bytes_on_device):
            getattr(module, function.__name__).__code__ = function.__code__
