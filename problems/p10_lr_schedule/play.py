"""Problem 10, played: the learner's schedule, and what it does to training."""

import numpy as np
import optax

from grader.exhibits import Line, Lines
from harness.config import OptimizerConfig
from harness.training.optimizer import learning_rate
from problems.stage.training import batches, by_optimizer, curve

TRAINS = True
STEPS, WARMUP, PEAK = 120, 20, 0.15


def play(module):
    """The learning rate of each step, then the loss with it and with the peak from the first step to the last."""
    schedule = module.warmup_cosine(PEAK, WARMUP, STEPS)
    harness = learning_rate(
        OptimizerConfig(steps=STEPS, warmup_steps=WARMUP, learning_rate=PEAK, final_lr_fraction=0.1)
    )
    steps = tuple(range(STEPS))
    rates = [np.array([float(each(step)) for step in steps]) for each in (schedule, harness)]
    same = np.allclose(*rates, rtol=1e-3, atol=1e-7)
    yield Lines(
        "Your learning rate, step by step",
        (Line("yours", steps, rates[0]), Line("the harness's", steps, rates[1])),
        "A quick rise while the first moments settle, then a slow fall, so that the last steps no longer undo each other."
        if same
        else f"The two curves differ, most at step {int(np.abs(rates[0] - rates[1]).argmax())}.",
        y="learning rate",
    )
    data = batches(STEPS)
    yours = yield from curve("your schedule", by_optimizer(optax.adam(schedule)), data, STEPS)
    constant = yield from curve("the peak all along", by_optimizer(optax.adam(PEAK)), data, STEPS)
    yield Lines(
        "The loss with it, and with the peak all along",
        (yours, constant),
        f"{yours.y[-1]:.2f} against {constant.y[-1]:.2f} nats at the end. The same peak, the same data, the same weights at the "
        "start.",
        y="nats per character",
    )
