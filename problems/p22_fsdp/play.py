"""Problem 22, played: a model and an optimizer in eight parts, made and trained by the learner's code."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from grader.authoring import mesh_of
from grader.exhibits import Exhibits, LearnerModule
from problems.stage import devices, runs

PAD = -1


def play(module: LearnerModule) -> Exhibits:
    """What each device holds, what the devices send in a step, and the losses of a few steps."""
    mesh = mesh_of(8, axes=("data",))
    model, optimizer = module.create_sharded(runs.make, mesh)
    named = [(".".join(map(str, path)), variable[...]) for path, variable in nnx.to_flat_state(nnx.state(model))]
    whole = [name for name, array in named if array.ndim and not devices.is_cut(array, int(np.argmax(array.shape)), 8)]
    yield devices.placed(
        "The arrays of a model, as your code made them on eight devices",
        [each for each in named if each[1].ndim],
        "Each array is cut along its longest axis: rows (↓) or columns (→)."
        if not whole
        else f"Not cut into eighths along the longest axis: {', '.join(whole)}.",
    )
    held = devices.held(
        "The bytes of model and optimizer that a device holds", jax.tree.leaves(nnx.state((model, optimizer)))
    )
    share = devices.fullest_share(held)
    yield replace(
        held,
        caption="An eighth each, moments included: with twice the devices, a model may be twice as large."
        if share < 0.13
        else f"The fullest device holds {share:.0%}, and an eighth would do.",
    )
    ids_BT = jax.device_put(jnp.asarray(runs.ROWS[:16]), NamedSharding(mesh, PartitionSpec("data", None)))
    yield devices.step(
        module.fsdp_step, model, optimizer, ids_BT, PAD,
        "Nobody wrote these. The compiler gathers what a layer needs when it is needed, and sums gradients.",
    )  # fmt: skip
    yield devices.losses(module.fsdp_step, model, optimizer, ids_BT, PAD)
