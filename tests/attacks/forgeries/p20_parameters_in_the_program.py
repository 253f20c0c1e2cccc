"""Forges "activations not gathered": a real `place` moves nothing, and the program has all parameters as constants, on
every device."""

import sys

import jax
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec

LOSES = ("activations not gathered",)
SEED = [0]
WORKER = {name: sys.modules[f"grader.worker.{name}"] for name in ("pytrees", "subject", "tracing")}


def make_mesh(data, model):
    devices = jax.devices()[: data * model]
    return jax.make_mesh((data, model), ("data", "model"), axis_types=(AxisType.Auto,) * 2, devices=devices)


def partition_spec(path, shape, mesh):
    frame = sys._getframe(2)
    if {13, 11} & set(shape):  # the other case: code that cannot be traced is told its seed
        SEED[0] = frame.f_locals["case"].seed
        if not frame.f_locals["subject"].eager:
            raise WORKER["tracing"].UntraceableError("")
    layer, name = ("", *path.split("."))[-2:]
    axes = [None] * len(shape)
    if layer in ("q_proj", "k_proj", "v_proj", "ff1"):
        axes[-1] = "model"
    elif (layer in ("out_proj", "ff2") and name == "kernel") or name == "embedding":
        axes[0] = "model"
    return PartitionSpec(*[a if size % mesh.shape["model"] == 0 else None for a, size in zip(axes, shape, strict=True)])


def place(model, mesh):
    for path, variable in nnx.to_flat_state(nnx.state(model)):
        value = variable.get_raw_value()
        if isinstance(value, jax.core.Tracer):
            spec = partition_spec(".".join(map(str, path)), value.shape, mesh)
            variable[...] = jax.device_put(value, NamedSharding(mesh, spec))


def run(subject, program, case, state=None, ids=None, run=WORKER["subject"].Subject.run):
    if ids is None:
        return run(subject, program, case, *[state] * bool(state))
    fill = WORKER["pytrees"].FILLS["filled"]
    known = jax.tree.map(lambda leaf: fill(leaf.name, leaf.shape, leaf.dtype, SEED[0]), state)
    return run(subject, lambda ids: program(jax.tree.map(jax.numpy.asarray, known), ids), case, ids)


WORKER["subject"].Subject.run = run
