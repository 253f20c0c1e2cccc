"""Problem 10, played: the learner's schedule, and what it does to training."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from grader.exhibits import Line, Lines
from harness.config import OptimizerConfig
from harness.training.optimizer import learning_rate
from problems.stage.training import V, batches, curve

TRAINS = True
STEPS, WARMUP, PEAK = 300, 30, 1.0


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
    yours = yield from curve("your schedule", by_table(schedule), data, STEPS)
    constant = yield from curve("the peak all along", by_table(PEAK), data, STEPS)
    yield Lines(
        "A table of which character follows which, trained with it, and with the peak all along",
        (yours, constant),
        f"{yours.y[-1]:.2f} against {constant.y[-1]:.2f} nats at the end. At the peak, each batch pulls the table to itself, and "
        "the next one pulls it away again. Small steps let it settle between them."
        if yours.y[-1] < constant.y[-1] - 0.03
        else f"{yours.y[-1]:.2f} against {constant.y[-1]:.2f} nats at the end: your schedule does not let the table settle.",
        y="nats per character",
        log=True,
    )


def by_table(rate):
    """A step that trains a table of log-odds, (V, V), with Adam at this rate or schedule."""
    optimizer = optax.adam(rate)
    table_VV = jnp.zeros((V, V))
    state = optimizer.init(table_VV)

    @jax.jit
    def advance(table_VV, state, ids_BT):
        def loss(table_VV):
            logits_BTV = table_VV[ids_BT[:, :-1]]
            return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits_BTV, ids_BT[:, 1:]))

        value, slopes_VV = jax.value_and_grad(loss)(table_VV)
        updates_VV, state = optimizer.update(slopes_VV, state)
        return table_VV + updates_VV, state, value

    def step(ids_BT):
        nonlocal table_VV, state
        table_VV, state, value = advance(table_VV, state, ids_BT)
        return value

    return step
