"""Problem 46, played: what the learner's Newton-Schulz steps do to a gradient, and how fast a model learns by them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.exhibits import Line, Lines, Progress
from problems.stage.model import gpt
from problems.stage.tuning import target_log_probabilities
from problems.stage.weights import before_training, held_out

TRAINS = True
STORIES, T, BATCH, STEPS, GAP = 160, 64, 8, 80, 4
SHOWN = 5  # Newton-Schulz steps
MUON, ADAM = 0.02, 0.003


def play(module):
    """Singular values of a gradient before and after the steps, then the losses of two runs with the same data."""
    rows = np.stack([ids[:T] for ids in held_out(STORIES)])
    graph, state = nnx.split(gpt(1, before_training()))
    shapes = {path: variable.shape for path, variable in nnx.to_flat_state(state)}
    start = {".".join(map(str, path)): matrix(path, variable[...]) for path, variable in nnx.to_flat_state(state)}

    @jax.jit
    def value_and_slopes(parameters, ids_BT):
        def loss(parameters):
            arrays = zip(nnx.to_flat_state(state), parameters.values(), strict=True)
            flat = [(path, variable.replace(array.reshape(shapes[path]))) for (path, variable), array in arrays]
            return -jnp.mean(target_log_probabilities(nnx.merge(graph, nnx.from_flat_state(flat)), ids_BT))

        return jax.value_and_grad(loss)(parameters)

    _, slopes = value_and_slopes(start, rows[:BATCH])
    gradient = slopes["blocks.ff1.kernel"]
    curves = {"the gradient": gradient / jnp.linalg.norm(gradient)}
    curves |= {
        f"after {steps} step{'s' * (steps > 1)}": module.orthogonalize(gradient, steps) for steps in (1, 3, SHOWN)
    }
    values = {name: np.linalg.svd(np.asarray(array), compute_uv=False) for name, array in curves.items()}
    many = np.arange(1, len(next(iter(values.values()))) + 1)
    last = values[f"after {SHOWN} steps"]
    yield Lines(
        "The singular values of a gradient, by your Newton-Schulz steps",
        tuple(Line(name, many, np.sort(of)[::-1]) for name, of in values.items()),
        f"The gradient moves the layer in a few directions and hardly in the others. After {SHOWN} steps, half of them have "
        f"between {np.quantile(last, 0.25):.2f} and {np.quantile(last, 0.75):.2f}: the layer learns in all of them.",
        x="direction",
        y="singular value",
    )
    rest = optax.adamw(ADAM, weight_decay=0.01)
    runs = {"your Muon": module.muon(MUON, 0.95, 0.01, rest), "AdamW": rest}
    losses = {name: [] for name in runs}
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


def matrix(path, array):
    """The array of a parameter without the axis over layers, a kernel with two axes."""
    if path[0] != "blocks":
        return array
    axes = array.shape[1:]
    return (
        array.reshape(axes[0] * axes[1] if "out" in path else axes[0], -1)
        if path[-1] == "kernel"
        else array.reshape(-1)
    )
