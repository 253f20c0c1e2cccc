"""Problem 46, played: what the learner's Newton-Schulz steps do to a gradient, and how fast a model learns by them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.exhibits import Exhibits, LearnerModule, Line, Lines, Progress
from problems.stage.model import gpt
from problems.stage.tuning import target_log_probabilities
from problems.stage.weights import before_training, held_out

TRAINS = True
STORIES, T, BATCH, STEPS, GAP = 160, 64, 8, 80, 4
SHOWN = 5  # Newton-Schulz steps
SMALLEST, RANGE = 0.01, (0.68, 1.14)  # what five steps bring close to 1, and how close
MUON, ADAM = 0.02, 0.003


def play(module: LearnerModule) -> Exhibits:
    """Singular values of a gradient before and after the steps, then the losses of two runs with the same data."""
    rows = np.stack([ids[:T] for ids in held_out(STORIES)])
    graph, state = nnx.split(gpt(1, before_training()))
    shapes = {path: variable.shape for path, variable in nnx.to_flat_state(state)}
    start = {".".join(map(str, path)): matrix(path, variable[...]) for path, variable in nnx.to_flat_state(state)}

    @jax.jit
    def value_and_slopes(parameters: Any, ids_BT: jax.Array) -> Any:
        def loss(parameters: Any) -> jax.Array:
            arrays = zip(nnx.to_flat_state(state), parameters.values(), strict=True)
            flat = [(path, variable.replace(array.reshape(shapes[path]))) for (path, variable), array in arrays]
            return -jnp.mean(target_log_probabilities(nnx.merge(graph, nnx.from_flat_state(flat)), ids_BT))

        return jax.value_and_grad(loss)(parameters)

    _, slopes = value_and_slopes(start, rows[:BATCH])
    gradient = slopes["blocks.ff1.kernel"]
    curves = {"the gradient": gradient / jnp.linalg.norm(gradient)}
    curves |= {f"after {steps} step{'s' * (steps > 1)}": module.orthogonalize(gradient, steps) for steps in (1, SHOWN)}
    values = {name: singular(np.asarray(array)) for name, array in curves.items()}
    many = np.arange(1, len(values["the gradient"]) + 1)
    yield Lines(
        "The singular values of a gradient, by your Newton-Schulz steps",
        tuple(Line(name, many, of) for name, of in values.items()),
        reached(values["the gradient"], values[f"after {SHOWN} steps"]),
        x="direction",
        y="singular value",
    )
    rest = optax.adamw(ADAM, weight_decay=0.01)
    runs = {"your Muon": module.muon(MUON, 0.95, 0.01, rest), "AdamW": rest}
    losses: dict[str, list[float]] = {name: [] for name in runs}
    for number, (name, tx) in enumerate(runs.items()):
        advance = jax.jit(lambda slopes, moments, parameters, tx=tx: tx.update(slopes, moments, parameters))
        parameters, moments = start, tx.init(start)
        for step in range(STEPS):
            ids_BT = rows[np.arange(step * BATCH, (step + 1) * BATCH) % STORIES]
            loss, slopes = value_and_slopes(parameters, ids_BT)
            updates, moments = advance(slopes, moments, parameters)
            parameters = optax.apply_updates(parameters, updates)
            losses[name].append(float(loss))
            yield Progress(number * STEPS + step + 1, 2 * STEPS, float(loss))
    steps = np.arange(GAP, STEPS + 1, GAP)
    yield Lines(
        "Training a model of one block from nothing",
        tuple(Line(name, steps, np.reshape(of, (-1, GAP)).mean(axis=1)) for name, of in losses.items()),
        "The same stories, the same start, and the same AdamW for tables and biases. Only the kernels inside "
        "of the block differ.",
    )


def singular(array: np.ndarray) -> np.ndarray:
    """The singular values of a matrix, largest first; NaN, if it has no finite ones."""
    finite = np.isfinite(array).all()
    return np.linalg.svd(array, compute_uv=False) if finite else np.full(min(array.shape), np.nan)


def reached(before: np.ndarray, after: np.ndarray) -> str:
    """A caption for the singular values of a gradient of norm 1 before and after the last step."""
    if not np.isfinite(after).all():
        return f"After {SHOWN} steps, the numbers are not finite: large singular values grow in each step."
    small, (low, high) = before < SMALLEST, RANGE
    if ((after < low) | (after > high))[~small].any():
        return (
            f"After {SHOWN} steps, the values of the gradient that were above {SMALLEST} lie between "
            f"{after[~small].min():.2g} and {after[~small].max():.2g}. The steps of the page bring them to between "
            f"{low} and {high}."
        )
    others = int(np.sum(after < low))
    rest = ("", " The other one was too small in the gradient.", " The others were too small in the gradient.")[
        min(others, 2)
    ]
    return (
        "The gradient moves the layer in a few directions and hardly in the others. "
        f"After {SHOWN} steps, {len(after) - others} of {len(after)} directions have between {low} and {high}.{rest}"
    )


def matrix(path: tuple[Any, ...], array: jax.Array) -> jax.Array:
    """The array of a parameter without the axis over layers, a kernel with two axes."""
    if path[0] != "blocks":
        return array
    axes = array.shape[1:]
    return (
        array.reshape(axes[0] * axes[1] if "out" in path else axes[0], -1)
        if path[-1] == "kernel"
        else array.reshape(-1)
    )
