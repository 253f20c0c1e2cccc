"""Problem 08, played: the learner's step trains a small model of characters."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from grader.exhibits import Exhibits, LearnerModule, Lines, Table
from problems.stage.training import apart, babble, batches, by_optimizer, curve, small

TRAINS = True
STEPS, RATE = 150, 1e-2


def play(module: LearnerModule) -> Exhibits:
    """The loss over the steps, beside that of a right step from the same weights on the same batches, and what
    the model writes before and after."""
    data = batches(STEPS)
    model = small()
    before = babble(model)
    optimizer = module.make_optimizer(model, RATE)
    yours = yield from curve(
        "yours", lambda ids: module.train_step(model, optimizer, jnp.asarray(ids), -1), data, STEPS
    )
    own = yield from curve("right", by_optimizer(optax.adam(RATE)), data, STEPS)
    moved = any(
        bool((now != then).any())
        for now, then in zip(*(jax.tree.leaves(nnx.state(each, nnx.Param)) for each in (model, small())), strict=True)
    )
    yield Lines(
        f"Your step trains a model of characters, {STEPS} times",
        (yours, own),
        said(yours.y[0], yours.y[-1], apart(yours, own), moved),
        y="nats per character",
        log=True,
    )
    yield Table(
        "What the model writes, character by character",
        ("", "after “Once”"),
        (("before", before), (f"after {STEPS} steps", babble(model))),
        "With random weights, any character may follow any other. The trained one has seen which stand together."
        if yours.y[0] - yours.y[-1] > 0.5
        else "It writes no better than before.",
    )


def said(first: float, last: float, distance: float, moved: bool) -> str:
    """What the curve shows, and whether any parameter of the model has `moved`."""
    if not moved:
        return "The loss does not fall: the model is the same after each step. What the step computed was thrown away."
    if not first - last > 0.1:
        return (
            f"The loss does not fall: it is {first:.2f} at first and {last:.2f} at the end, although the parameters "
            f"change."
        )
    if distance > 0.05:
        return (
            f"The loss falls, but the two curves are {distance:.2f} apart: your step is not Adam's step on the mean "
            f"loss."
        )
    return (
        f"From {first:.1f} to {last:.1f}: at first every character is equally likely, then the model knows which are "
        "frequent, then which follow which. Both curves lie on each other, because a step is arithmetic."
    )
