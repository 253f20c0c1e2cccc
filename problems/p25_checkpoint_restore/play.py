"""Problem 25, played: a run that is saved and restored by the learner's code, beside one that never stopped."""

import jax.numpy as jnp

from grader.worker.files import new_folder
from problems.stage import runs

BEFORE, AFTER, BATCH = 12, 12, 8


def play(module):
    """The losses of both runs, then the files of the checkpoint."""
    noise = jnp.zeros((BATCH, runs.T))

    def steps(model, optimizer, first, count):
        rows = [runs.ROWS[(number * BATCH) % len(runs.ROWS) :][:BATCH] for number in range(first, first + count)]
        return [float(runs.step(model, optimizer, row, noise)) for row in rows]

    model, optimizer = runs.make()
    losses = steps(model, optimizer, 0, BEFORE)
    path = new_folder() / "checkpoint"
    module.save(str(path), model, optimizer)
    losses += steps(model, optimizer, BEFORE, AFTER)
    restored = steps(*module.restore(str(path), runs.make), BEFORE, AFTER)
    yield runs.on_each_other(
        "A run that never stopped, and one from your checkpoint",
        {"never stopped": losses, "restored": restored},
        BEFORE,
        "something is missing in the checkpoint, such as the moments of the optimizer",
    )
    yield runs.saved(path, model)
