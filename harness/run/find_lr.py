"""The learning-rate range test (Smith 2017): the rate grows exponentially from step to step until the loss diverges."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from commandline.progress import progress
from harness.errors import HarnessError
from harness.pieces.load import attribute_errors_to
from harness.run.batch_source import open_feed
from harness.run.run_session import Session, make_recipe
from harness.run.state import initial_state
from harness.training.train_step import make_step_functions

LOWEST, HIGHEST = 1e-6, 1.0
SMOOTHING = 0.9  # weight of the past in the moving average of the loss
DIVERGED = 1.1  # times the lowest smoothed loss: gradients are clipped, so a loss that has left the valley rises slowly


@dataclasses.dataclass(frozen=True)
class RangeTest:
    """The losses of a range test, up to the step at which it diverged, if it did. All arrays have one number per
    step."""

    rates: np.ndarray
    losses: np.ndarray
    smoothed: np.ndarray
    diverged: bool

    @property
    def suggested(self) -> float:
        """The rate at which the smoothed loss falls fastest (per factor of the rate), a good peak of a schedule."""
        return float(self.rates[np.argmin(np.gradient(self.smoothed))])

    def table(self, rows: int = 12) -> str:
        """The losses at some of the rates, over several lines."""
        shown = np.unique(np.linspace(0, len(self.rates) - 1, rows).astype(int))
        lines = [f"{self.rates[step]:>15.2e}{self.losses[step]:>12.4f}{self.smoothed[step]:>12.4f}" for step in shown]
        return "\n".join([f"{'learning rate':>15}{'loss':>12}{'smoothed':>12}", *lines])


def range_test(session: Session, steps: int, *, quiet: bool = False) -> RangeTest:
    """Trains up to `steps` steps from the initial state, at rates from `LOWEST` to `HIGHEST` in equal ratios.

    Writes nothing. Raises HarnessError if the loss of the first step is not finite, PieceError if a piece fails.
    """
    session = _with_growing_rate(session, steps)
    feed = open_feed(session)
    losses: list[float] = []
    smoothed: list[float] = []
    with (
        jax.set_mesh(session.mesh),
        progress("range test", unit="steps", total=steps, quiet=quiet) as advance,
    ):
        (state, _), average, diverged = initial_state(session), 0.0, False
        while len(losses) < steps and not diverged:
            step = functools.partial(session.functions.train_step, state, feed.next(state).arrays)
            state, metrics = attribute_errors_to(session.pieces, step)
            losses.append(float(metrics.loss))
            average = SMOOTHING * average + (1 - SMOOTHING) * losses[-1]
            smoothed.append(average / (1 - SMOOTHING ** len(losses)))
            diverged = not smoothed[-1] <= DIVERGED * min(smoothed)  # nor if it is not finite
            advance(1, f"loss {losses[-1]:.3f}")
    if not math.isfinite(losses[0]):
        raise HarnessError(f"The loss of the first step is {losses[0]}, before any update. No learning rate helps.")
    return RangeTest(_rates(steps)[: len(losses)], np.array(losses), np.array(smoothed), diverged)


def _rates(steps: int) -> np.ndarray:
    return np.geomspace(LOWEST, HIGHEST, steps)


def _with_growing_rate(session: Session, steps: int) -> Session:
    """The session with a constant rate of 1, whose updates are multiplied by the rate of each step."""
    constant: dict[str, Any] = dict(schedule="cosine", decay_start=0, warmup_steps=0, final_lr_fraction=1.0)
    config = dataclasses.replace(session.config, learning_rate=1.0, steps=steps, **constant)
    pieces = session.pieces
    if pieces is not None:
        by_name = {name: piece for name, piece in pieces.by_name.items() if name != "warmup_cosine"}
        pieces = dataclasses.replace(pieces, by_name=by_name)
    recipe = make_recipe(config, session.mesh, pieces)
    rates_N = jnp.asarray(_rates(steps), jnp.float32)
    optimizer = optax.chain(recipe.optimizer, optax.scale_by_schedule(lambda step: rates_N[step]))
    recipe = dataclasses.replace(recipe, optimizer=optimizer)
    with jax.set_mesh(session.mesh):
        functions = make_step_functions(config, session.mesh, recipe)
    return dataclasses.replace(session, config=config, functions=functions)
