"""Problem 27, played: a checkpoint from one mesh, restored by the learner's code on others."""

import jax
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from grader.authoring import mesh_of, new_folder
from grader.exhibits import Bar, Bars, Exhibits, LearnerModule
from problems.stage import devices, runs

MESHES = ((4, 2), (3, 2), (1, 1))


def play(module: LearnerModule) -> Exhibits:
    """Where the arrays of a model were and are, and the bytes of model and optimizer on each device."""
    model, optimizer = runs.make()
    for node in (model, optimizer):
        nnx.update(node, jax.tree.map(spread, nnx.state(node)))
    path = new_folder() / "checkpoint"
    module.save(str(path), model, optimizer)
    states = {MESHES[0]: nnx.state((model, optimizer))}
    for shape in MESHES[1:]:
        states[shape] = nnx.state(module.restore_on(str(path), runs.make, mesh_of(*shape)))
    bars: list[Bar] = []
    for shape, state in states.items():
        arrays = [(".".join(map(str, name)), variable[...]) for name, variable in nnx.to_flat_state(nnx.state(state))]
        arrays = [(name.removeprefix("0."), array) for name, array in arrays if name.startswith("0.") and array.ndim]
        yield devices.placed(
            f"The model on {shape[0]} × {shape[1]} devices" + ("" if bars else ", where it was saved"), arrays[:6],
            "" if bars else "Each device writes its own part, and the devices that are there later read what is "
                "theirs.",
        )  # fmt: skip
        held = devices.bytes_on_each(jax.tree.leaves(state))
        bars.append(Bar(f"{shape[0]} × {shape[1]} devices", float(held.max())))
    first, *others = ([np.asarray(leaf) for leaf in jax.tree.leaves(state)] for state in states.values())
    same = all(np.array_equal(a, b) for other in others for a, b in zip(first, other, strict=True))
    yield Bars(
        "Model and optimizer on the fullest device",
        tuple(bars),
        "bytes",
        "The numbers are the same on all meshes, bit for bit. Only their places differ."
        if same
        else "Some numbers have changed on the way from one mesh to the other.",
    )


def spread(array: jax.Array) -> jax.Array:
    """The array on the first mesh: its last axis over `model`."""
    spec = PartitionSpec(*[None] * (array.ndim - 1), "model") if array.ndim else PartitionSpec()
    return jax.device_put(array, NamedSharding(mesh_of(*MESHES[0]), spec))
