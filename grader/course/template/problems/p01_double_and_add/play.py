"""Problem 01, played: Double and add one."""

import jax.numpy as jnp

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule

NUMBERS = (-1.0, 0.0, 1.0, 2.0)


# TODO: show what the piece does in a real model, so that learners see why it exists
def play(module: LearnerModule) -> Exhibits:
    """What the learner's function makes of a few numbers."""
    (row,) = module.double_and_add(jnp.array([NUMBERS]))
    bars = tuple(Bar(f"{x:g}", y, x) for x, y in zip(NUMBERS, row, strict=True))
    yield Bars("What comes out of your function", bars, "value", names=("out", "in"))
