"""Problem 11, played: one broken batch, with and without the learner's clipping."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Lines
from problems.stage.training import batches, by_optimizer, curve, written

TRAINS = True
STEPS, BROKEN, TIMES = 120, 60, 300.0
RATE, MAX_NORM = 0.3, 1.0


def play(module: LearnerModule) -> Exhibits:
    """The loss when the gradients of one batch are far too large, then the norms of what the optimizer gets."""

    def spike(step: jax.Array, gradients: Any) -> Any:
        return jax.tree.map(lambda g: g * jnp.where(step == BROKEN, TIMES, 1.0), gradients)

    def clipped(step: jax.Array, gradients: Any) -> Any:
        return module.clip_by_global_norm(spike(step, gradients), MAX_NORM)[0]

    data = batches(STEPS)
    steps = {
        "clipped by yours": by_optimizer(optax.sgd(RATE), clipped),
        "not clipped": by_optimizer(optax.sgd(RATE), spike),
    }
    lines = []
    for name, step in steps.items():
        lines.append((yield from curve(name, step, data, STEPS)))
    yours, bare = lines
    after, broken = (np.array(line.y)[np.array(line.x) > BROKEN] for line in (yours, bare))
    yield Lines(
        f"A batch whose gradients are {TIMES:.0f} times too large, at step {BROKEN}",
        (yours, bare),
        "Without clipping, one step throws away what the steps before it had learned. With yours, the curve hardly "
        "shows it."
        if after.max() < np.nanmax(broken) - 0.5
        else "Your curve ends: the clipped gradients are not finite."
        if not np.isfinite(after).all()
        else "Your clipping does not hold the step back: the curve jumps.",
        y="nats per character",
        log=True,
    )
    yield written(steps, f"{STEPS - BROKEN} steps after the broken batch.")
    gradients = {"a": jnp.array([3.0, 4.0]), "b": jnp.array([[12.0, 0.0]])}
    cut, norm = module.clip_by_global_norm(gradients, MAX_NORM)
    numbers = (
        ("the norm that you report", norm, 13.0),
        ("their norm afterwards", optax.tree.norm(cut), 1.0),
        ("first number", cut["a"][0], 3 / 13),
        ("second number", cut["a"][1], 4 / 13),
    )
    wrong = [name for name, value, expected in numbers if not np.isclose(value, expected, rtol=1e-3)]
    yield Bars(
        "Gradients (3, 4) and (12, 0), clipped to a norm of 1",
        tuple(Bar(*each) for each in numbers),
        "length",
        "One factor for all of them: the step gets shorter, and keeps its direction."
        if not wrong
        else f"Not as it should be: {', '.join(wrong)}.",
        names=("yours", "right"),
    )
