"""Problem 12, played: the learner's accumulation trains like one large batch, in the memory of a small one."""

from typing import Any

import jax
import numpy as np
import optax
from flax import nnx

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Lines
from problems.stage.programs import temporary_bytes
from problems.stage.training import SmallStep, apart, batches, curve, loss_sum, small, written

TRAINS = True
STEPS, PARTS, MAX_NORM, RATE = 100, 4, 1.0, 1e-2
SPLITS = (1, 2, 4, 8)


def play(module: LearnerModule) -> Exhibits:
    """The loss of both ways on batches with padding, then the memory of a step by the number of parts."""

    def accumulated(graph: Any, parameters: Any, ids_BT: jax.Array, step: jax.Array) -> tuple[Any, Any]:
        loss, gradients, _ = module.accumulated_gradients(
            lambda p, ids: loss_sum(nnx.merge(graph, p), ids), parameters, ids_BT, PARTS, MAX_NORM
        )
        return loss, gradients

    def at_once(graph: Any, parameters: Any, ids_BT: jax.Array, step: jax.Array) -> tuple[Any, Any]:
        (total, count), gradients = jax.value_and_grad(lambda p: loss_sum(nnx.merge(graph, p), ids_BT), has_aux=True)(
            parameters
        )
        clip = optax.clip_by_global_norm(MAX_NORM)
        return total / count, clip.update(jax.tree.map(lambda g: g / count, gradients), clip.init(parameters))[0]

    data = padded(batches(STEPS))
    steps = {
        f"yours, in {PARTS} parts": SmallStep(accumulated, optax.adam(RATE)),
        "the whole batch at once": SmallStep(at_once, optax.adam(RATE)),
    }
    lines = []
    for name, step in steps.items():
        lines.append((yield from curve(name, step, data, STEPS)))
    yours, own = lines
    distance = apart(yours, own)
    yield Lines(
        f"Training with gradients that are accumulated over {PARTS} parts of each batch",
        (yours, own),
        "The same curve: a gradient is a sum over tokens, and it does not matter in how many parts a sum is taken."
        if distance < 0.02
        else "Your curve ends: your gradients are not finite."
        if not np.isfinite(yours.y).all()
        else f"Up to {distance:.2f} nats apart, so your gradients are not those of the whole batch. The rows are of "
        "very different lengths: a mean of means, for one, is another gradient.",
        y="nats per character",
        log=True,
    )
    yield written(steps, f"After {STEPS} steps. Both draw with the same random numbers.")
    graph, parameters = nnx.split(small())
    bars = []
    for parts in SPLITS:

        def whole(parameters: Any, ids_BT: jax.Array, parts: int = parts) -> Any:
            return module.accumulated_gradients(
                lambda p, ids: loss_sum(nnx.merge(graph, p), ids), parameters, ids_BT, parts, MAX_NORM
            )

        bars.append(Bar(f"{parts} part{'s' * (parts > 1)}", temporary_bytes(whole, parameters, data[0]) / 2**20))
    yield Bars(
        "The temporary memory of your step",
        tuple(bars),
        "MiB",
        "More parts, less memory: only one part's activations exist at a time."
        if bars[-1].value < bars[0].value / 2
        else "More parts, and hardly less memory: something of all parts exists at the same time.",
    )


def padded(data: np.ndarray) -> np.ndarray:
    """The batches with most of the second half of the rows cut off."""
    data = np.array(data)
    half = data.shape[1] // 2
    data[:, half:, 12:] = -1
    return data
