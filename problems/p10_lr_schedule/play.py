"""Problem 10, played: the learner's schedules, and what they do to training."""

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.authoring import BadEntryError
from grader.exhibits import Exhibits, LearnerModule, Line, Lines
from harness.config import OptimizerConfig
from harness.training.optimizer import learning_rate
from problems.stage.training import V, batches, curve, written

TRAINS = True
STEPS, WARMUP, PEAK = 300, 30, 1.0
DECAY = 240  # the second curve's decay starts here: the last fifth


def play(module: LearnerModule) -> Exhibits:
    """The learning rate of each step, then the loss with both schedules and with the peak from the first step to the
    last."""
    schedules = {"your cosine": module.warmup_cosine(PEAK, WARMUP, STEPS)}
    with contextlib.suppress(BadEntryError, NotImplementedError):  # it may be not written yet
        schedules["your stable part and decay"] = module.warmup_stable_decay(PEAK, WARMUP, DECAY, STEPS)
    harness = learning_rate(
        OptimizerConfig(steps=STEPS, warmup_steps=WARMUP, learning_rate=PEAK, final_lr_fraction=0.1)
    )
    steps = tuple(range(STEPS))
    rates = {name: np.array([float(each(step)) for step in steps]) for name, each in schedules.items()}
    own = np.array([float(harness(step)) for step in steps])
    cosine, *stable = rates.values()
    same = np.allclose(cosine, own, rtol=1e-3, atol=1e-7)
    yield Lines(
        "Your learning rates, step by step",
        (*(Line(name, steps, each) for name, each in rates.items()), Line("the right cosine", steps, own)),
        "A quick rise while the first moments settle, then a slow fall, so that the last steps no longer undo each "
        "other." + f" The second curve needs to know its end only from step {DECAY} on." * bool(stable)
        if same
        else f"Your cosine differs from the right one, most at step {int(np.abs(cosine - own).argmax())}.",
        y="learning rate",
    )
    data = batches(STEPS)
    tables = {name: TableStep(each) for name, each in schedules.items()} | {"the peak all along": TableStep(PEAK)}
    lines = []
    for name, step in tables.items():
        lines.append((yield from curve(name, step, data, STEPS)))
    *losses, constant = lines
    ends = [line.y[-1] for line in losses]
    settled = [end < constant.y[-1] - 0.03 for end in ends]
    yield Lines(
        "A table of which character follows which, trained with each, and with the peak all along",
        (*losses, constant),
        f"{' and '.join(f'{end:.2f}' for end in ends)} against {constant.y[-1]:.2f} nats at the end. "
        + (
            "At the peak, each batch pulls the table to itself, and the next one pulls it away again. Small steps let "
            "it settle between them."
            if all(settled)
            else f"With {losses[settled.index(False)].name}, the table does not settle."
        ),
        y="nats per character",
        log=True,
    )
    yield written(tables, "A table knows only the character before, so all of them babble, in syllables at best.")


class TableStep:
    """A step that trains a table of log-odds, (V, V), with Adam at this rate or schedule."""

    def __init__(self, rate: optax.ScalarOrSchedule) -> None:
        optimizer = optax.adam(rate)
        self._table_VV = jnp.zeros((V, V))
        self._state = optimizer.init(self._table_VV)

        @jax.jit
        def advance(table_VV: jax.Array, state: Any, ids_BT: jax.Array) -> tuple[jax.Array, Any, jax.Array]:
            def loss(table_VV: jax.Array) -> jax.Array:
                logits_BTV = table_VV[ids_BT[:, :-1]]
                return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits_BTV, ids_BT[:, 1:]))

            value, slopes_VV = jax.value_and_grad(loss)(table_VV)
            updates_VV, state = optimizer.update(slopes_VV, state)
            return table_VV + updates_VV, state, value

        self._advance = advance

    def __call__(self, ids_BT: jax.Array) -> jax.Array:
        """Takes the step on a batch. Returns the loss before it."""
        self._table_VV, self._state, loss = self._advance(self._table_VV, self._state, ids_BT)
        return loss

    @property
    def model(self) -> nnx.Embed:
        """The table as a model, whose scores after a character are the row of that character."""
        return nnx.Embed(V, V, embedding_init=lambda *_: self._table_VV, rngs=nnx.Rngs(0))
