"""Problem 09, played: the learner's AdamW trains a small model, beside optax's and beside plain gradient descent."""

import optax

from grader.exhibits import Exhibits, LearnerModule, Lines
from problems.stage.training import apart, batches, by_optimizer, curve, written

TRAINS = True
STEPS = 120
SETTINGS = {"learning_rate": 1e-2, "b1": 0.9, "b2": 0.999}
DESCENT = 0.5  # the learning rate with which plain descent does best here


def play(module: LearnerModule) -> Exhibits:
    """Three curves from the same weights on the same batches."""
    data = batches(STEPS)
    mine = module.adamw(*SETTINGS.values(), 1e-8, 0.01)
    theirs = optax.adamw(**SETTINGS, eps=1e-8, weight_decay=0.01)
    steps = {
        "your AdamW": by_optimizer(mine),
        "optax's AdamW": by_optimizer(theirs),
        "plain gradient descent": by_optimizer(optax.sgd(DESCENT)),
    }
    lines = []
    for name, step in steps.items():
        lines.append((yield from curve(name, step, data, STEPS)))
    yours, own, plain = lines
    distance = apart(yours, own)
    yield Lines(
        f"{STEPS} steps of training by your AdamW",
        (yours, own, plain),
        "Gradient descent moves each number by its gradient, and frequent characters have large ones. AdamW moves "
        f"every number by about the learning rate, so rare ones learn, too: {own.y[-1]:.2f} against {plain.y[-1]:.2f} "
        "nats."
        if distance < 0.02
        else f"Your curve is up to {distance:.2f} nats away from optax's. An error in the moments shows in the first "
        "steps, one in the decay only later.",
        y="nats per character",
        log=True,
    )
    yield written(
        steps,
        f"After {STEPS} steps. All three read the same stories and draw with the same random numbers: what differs is "
        "how far each number was moved.",
    )
