"""Problem 24, played: which learning rate is best at three widths, with the learner's parametrization and without
it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.exhibits import Exhibits, LearnerModule, Line, Lines, Progress, Table
from problems.stage.tuning import target_log_probabilities
from problems.stage.weights import POCKET, held_out

TRAINS = True
WIDTHS, BASE = (16, 64, 256), 16
POWERS = (-10, -8, -6, -4, -2)  # of two, that are the learning rates
T, BATCH, STEPS = 32, 8, 25


def play(module: LearnerModule) -> Exhibits:
    """The loss after a few steps over the learning rate, a curve for each width: first without, then with the learner's
    code."""
    rows = np.stack([ids[:T] for ids in held_out(64)])
    found = []
    for number, (title, of_base) in enumerate((("Without", None), ("With", BASE))):
        curves = []
        for width in WIDTHS:
            curves.append(Line(f"width {width}", POWERS, final_losses(module, width, of_base or width, rows)))
            found.append((f"{title.lower()}, width {width}", *(f"{y:.2f}" for y in curves[-1].y)))
            yield Progress(number * len(WIDTHS) + len(curves), 2 * len(WIDTHS), float(np.min(curves[-1].y)))
        best = [curve.x[int(np.argmin(curve.y))] for curve in curves]
        yield Lines(
            f"{title} your muP: the loss after {STEPS} steps, over the learning rate",
            tuple(curves),
            "The best rate is " + ", ".join(f"2^{n:g} at width {D}" for n, D in zip(best, WIDTHS, strict=True))
            + (". Each width needs a search of its "
                "own." if of_base is None and np.ptp(best) else "." if of_base is None else
               ". Within a point of the grid, what is found with a small model holds for a large "
               "one." if np.ptp(best) <= 2 else
               ". It still moves with the width: something does not scale as muP says."),
            x="n, for the rate 2^n",
        )  # fmt: skip
    yield Table(
        "The same losses in numbers", ("your muP", *(f"2^{n}" for n in POWERS)), tuple(found),
        "The best rate of a row is where its loss is smallest."
    )  # fmt: skip


def final_losses(module: LearnerModule, width: int, base: int, rows: np.ndarray) -> np.ndarray:
    """The loss at each rate after the same steps. Adam's updates are proportional to its rate, so one program does for
    all."""
    make = module.MupLM(POCKET.vocab_size, width, base, nnx.Rngs(0))
    graph, start = nnx.split(make)
    tx = module.mup_adam(1.0, width, base)

    def loss(state: Any, ids_BT: jax.Array) -> jax.Array:
        return -jnp.mean(target_log_probabilities(jax.vmap(nnx.merge(graph, state)), ids_BT))

    @jax.jit
    @jax.vmap
    def run(rate: jax.Array) -> jax.Array:
        def step(carry: Any, ids_BT: jax.Array) -> Any:
            state, moments = carry
            value, slopes = jax.value_and_grad(loss)(state, ids_BT)
            updates, moments = tx.update(slopes, moments, state)
            return (optax.apply_updates(state, jax.tree.map(lambda update: rate * update, updates)), moments), value

        batches = jnp.stack([rows[np.arange(n * BATCH, (n + 1) * BATCH) % len(rows)] for n in range(STEPS)])
        return jnp.mean(jax.lax.scan(step, (start, tx.init(start)), batches)[1][-5:])

    return np.minimum(np.nan_to_num(np.asarray(run(2.0 ** jnp.array(POWERS))), nan=20.0), 20.0)
