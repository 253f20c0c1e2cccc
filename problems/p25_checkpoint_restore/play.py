"""Problem 25, played: a run that is saved and restored by the learner's code, beside one that never stopped."""

import io
import sys
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from grader.authoring import model_factory, new_folder
from grader.exhibits import Exhibits, LearnerModule, Table
from problems.stage import runs
from problems.stage.weights import POCKET

BEFORE, AFTER, BATCH = 12, 12, 8
OTHERS = {
    "twice as wide inside": model_factory(POCKET.vocab_size, 64, 256, drawn=True),
    "half as wide": model_factory(POCKET.vocab_size, 32, 128, drawn=True),
    "one token fewer": model_factory(POCKET.vocab_size - 1, 64, 128, drawn=True),
}


def play(module: LearnerModule) -> Exhibits:
    """The losses of both runs, the size of the checkpoint, and what a restore says of other shapes."""
    noise = jnp.zeros((BATCH, runs.T))

    def steps(model: Any, optimizer: Any, first: int, count: int) -> list[float]:
        rows = [runs.ROWS[(number * BATCH) % len(runs.ROWS) :][:BATCH] for number in range(first, first + count)]
        return [float(runs.step(model, optimizer, row, noise)) for row in rows]

    model, optimizer = runs.make()
    losses = steps(model, optimizer, 0, BEFORE)
    path = new_folder() / "checkpoint"
    module.save(str(path), model, optimizer)
    losses += steps(model, optimizer, BEFORE, AFTER)
    pair: tuple[Any, Any] = module.restore(str(path), runs.make)
    restored = steps(*pair, BEFORE, AFTER)
    yield runs.on_each_other(
        "A run that never stopped, and one from your checkpoint",
        {"never stopped": losses, "restored": restored},
        BEFORE,
        "All losses are the same, bit for bit: the checkpoint holds all that these steps depend on.",
    )
    yield runs.saved(path, model)
    # Reads that are under way when Orbax gives up end in tracebacks of its threads, some after the end of the play.
    # They say nothing to a learner.
    sys.stderr = io.StringIO()
    rows = [(name, answer(module, str(path), make)) for name, make in OTHERS.items()]
    yield Table(
        "What your `restore` says when the model has other shapes than the checkpoint",
        ("the new model", "your restore"),
        tuple(rows),
        "An exception now costs a minute. A model with arrays that do not belong to it costs the run."
        if all(said != "returns a model" for _, said in rows)
        else "Where it returns a model, nothing has compared the shapes, and training would start with arrays that do "
        "not fit.",
    )


def answer(module: LearnerModule, path: str, make: Callable[..., Any]) -> str:
    """The exception that a restore raises, or that it returns a model."""
    try:
        module.restore(path, make)
    except Exception as error:
        return f"raises {type(error).__name__}"
    return "returns a model"
