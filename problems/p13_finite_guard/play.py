"""Problem 13, played: one poisoned batch, with and without the learner's guard."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from grader.exhibits import Exhibits, LearnerModule, Lines, Table
from problems.stage.training import batches, by_optimizer, curve, written

TRAINS = True
STEPS, POISONED, RATE = 120, 60, 1e-2


def play(module: LearnerModule) -> Exhibits:
    """The loss when the gradients of one batch are NaN, then how many steps the guard skipped, and where the first NaN
    is."""

    def poison(step: jax.Array, gradients: Any) -> Any:
        return jax.tree.map(lambda g: jnp.where(step == POISONED, jnp.nan, g), gradients)

    data = batches(STEPS)
    guarded = by_optimizer(module.finite_guard(optax.adam(RATE)), poison)
    steps = {"guarded by yours": guarded, "not guarded": by_optimizer(optax.adam(RATE), poison)}
    lines = []
    for name, step in steps.items():
        lines.append((yield from curve(name, step, data, STEPS)))
    yours, bare = lines
    alive = np.isfinite(yours.y).all()
    yield Lines(
        f"A batch whose gradients are not numbers, at step {POISONED}",
        (yours, bare),
        "Without a guard, the curve ends: one NaN makes every parameter NaN, and no later batch brings it back. With "
        "yours, the step is left out, and training goes on."
        if alive
        else "Your curve ends, too: something of the poisoned step went into the parameters or the moments.",
        y="nats per character",
        log=True,
    )
    yield written(steps, f"{STEPS - POISONED} steps after the bad batch. A model of NaN writes nothing.")
    state = guarded.state
    skipped = state.get("skipped") if isinstance(state, dict) else getattr(state, "skipped", None)
    tree = {"block": {"kernel": jnp.array([1.0, jnp.nan])}, "embed": jnp.ones(2), "head": jnp.array(jnp.inf)}
    found = (
        ("steps skipped", "not counted" if skipped is None else str(skipped), "1"),
        ("first bad leaf", str(module.first_nonfinite(tree)), "['block']['kernel']"),
    )
    yield Table(
        "What you can find out afterwards",
        ("", "yours", "right"),
        found,
        "The tree has a NaN in the kernel of its block, and an infinity in its head. "
        + (
            "A run that leaves out one step in ten thousand is healthy. One that leaves out every tenth has an error, "
            "and its place is the first thing to know."
            if all(yours == right for _, yours, right in found)
            else "What your code says is not what happened."
        ),
    )
