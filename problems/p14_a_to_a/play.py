"""Problem 14, played: the smallest model learns to repeat, and a table of what it answers to what."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.exhibits import Exhibits, HeatMap, LearnerModule, Line, Lines, Plane
from problems.stage.model import jitted

TRAINS = True
V, D, STEPS, ROWS, LENGTH = 16, 8, 150, 8, 12
LETTERS = tuple("abcdefghijklmnop")


def play(module: LearnerModule) -> Exhibits:
    """What the model answers to each letter before and after training, and the loss in between."""
    model = module.AToA(V, D, rngs=nnx.Rngs(0))
    before = answers(model)
    batches = jax.random.randint(jax.random.key(0), (STEPS, ROWS, LENGTH), 0, V)
    losses = np.asarray(module.learn_identity(model, batches))
    start, end = float(losses[0]), float(losses[-1])
    yield Lines(
        "The loss while it learns",
        (
            Line("yours", range_of(losses), tuple(losses)),
            Line(f"a guess among {V}", range_of(losses), (np.log(V),) * len(losses)),
        ),
        f"It begins at {start:.2f}, a guess has ln {V} = {np.log(V):.2f}, and it ends at {end:.3f}. A pipeline that "
        "cannot learn this cannot learn anything."
        if end < 0.3
        else f"The training diverges: the loss ends at {end:.3g}, and a guess has ln {V} = {np.log(V):.2f}."
        if not end < np.log(V) + 1
        else f"It ends at {end:.2f}. This task has a loss of 0, so something between the model and its update is "
        "broken.",
        y="nats per token",
    )
    after = answers(model)
    repeated = int((after.argmax(1) == np.arange(V)).sum()) if np.isfinite(after).all() else 0
    yield HeatMap(
        "What it answers to each letter",
        LETTERS,
        LETTERS,
        (Plane(before, "before"), Plane(after, "after")),
        "Row by row, a letter goes in, and the odds of each answer come out. "
        + (
            "Repeating is a diagonal."
            if repeated == V
            else f"Repeating would be a diagonal: {repeated} of the {V} letters are answered with themselves."
            + " The losses fell, but the model that was given is not the one that they are of." * (end < 0.3)
        ),
        "probability",
    )


def answers(model: nnx.Module) -> np.ndarray:
    """The odds of each answer to each letter, (V, V)."""
    return np.asarray(jax.nn.softmax(jitted(model)(jnp.arange(V)), axis=-1))


def range_of(losses: np.ndarray) -> tuple[int, ...]:
    """The number of each step."""
    return tuple(range(1, len(losses) + 1))
