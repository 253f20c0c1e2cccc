"""Problem 21, played: a model and a batch over eight devices, and a step of the learner's on them."""

import jax.numpy as jnp
from flax import nnx

from grader.authoring import mesh_of
from grader.exhibits import Exhibits, LearnerModule
from problems.stage import devices, runs

PAD, ROWS = -1, 16


def play(module: LearnerModule) -> Exhibits:
    """Where the arrays and the stories are, what the devices send in a step, and the losses of a few steps."""
    mesh = mesh_of(4, 2)
    model, optimizer = runs.make()
    for node in (model, optimizer):
        module.shard_state(node, mesh)
    ids_BT = module.shard_batch(jnp.asarray(runs.ROWS[:ROWS]), mesh)
    named = [(".".join(map(str, path)), variable[...]) for path, variable in nnx.to_flat_state(nnx.state(model))]
    shared = all(devices.is_cut(array, -1, 2) for _, array in named if array.ndim)
    cut = devices.is_cut(ids_BT, 0, 4)
    yield devices.placed(
        "A model and a batch on 4 × 2 devices, as your code placed them",
        [*(each for each in named if each[1].ndim), ("the batch", ids_BT)],
        (
            "Devices 0 and 1 share the model, and so do the other pairs. "
            if shared
            else "Not every array is in two halves along its last axis, so the devices do not share the model evenly. "
        )
        + (
            "Each pair has a quarter of the stories."
            if cut
            else "The stories are not in quarters, one for each pair of devices."
        ),
    )
    yield devices.step(
        module.sharded_train_step, model, optimizer, ids_BT, PAD,
        "Nobody wrote these: the compiler puts them where the parts do not fit together.",
    )  # fmt: skip
    yield devices.losses(module.sharded_train_step, model, optimizer, ids_BT, PAD)
