"""Problem 68, played: the layers of a model on four devices, by the learner's pipeline."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from grader.authoring import mesh_of
from grader.exhibits import Bar, Bars, Exhibits, HeatMap, LearnerModule, Line, Lines, Plane, Progress
from problems.stage import devices
from problems.stage.model import stream
from problems.stage.weights import POCKET, held_out

TRAINS = True
P = PartitionSpec
STAGES, MICROBATCHES, T, F, STEPS, LEARNING_RATE = 4, 8, 16, 64, 60, 0.3
MANY = (1, 2, 4, 8, 16, 32, 64)


def play(module: LearnerModule) -> Exhibits:
    """The schedule, the share of the bubbles, what the devices send, and a model that learns across them."""
    table = np.asarray(module.forward_schedule(STAGES, MICROBATCHES))
    yield HeatMap(
        "Which microbatch each stage works on, by your schedule",
        tuple(f"stage {stage}" for stage in range(table.shape[1])),
        tuple(str(tick) for tick in range(len(table))),
        (
            Plane(
                (table.T >= 0).astype(float).tolist(),
                "",
                [[str(m) if m >= 0 else "" for m in row] for row in table.T.tolist()],
            ),
        ),
        f"{len(table)} ticks, in {float(np.mean(table < 0)):.0%} of which a stage is idle: {STAGES - 1} ticks until "
        "the first microbatch has arrived at the last stage, and as many at the end.",
        "busy",
    )
    idle = [float(np.mean(np.asarray(module.forward_schedule(STAGES, many)) < 0)) for many in MANY]
    yield Lines(
        f"The share of the bubbles, with {STAGES} stages",
        (Line("your schedule", MANY, idle), Line("one microbatch after the other", MANY, [1 - 1 / STAGES] * len(MANY))),
        "More and smaller microbatches leave fewer bubbles. They also need more ticks with smaller products, so there "
        "is a best number.",
        x="microbatches",
        y="share",
    )

    mesh, (x_MTD, targets_MTD) = mesh_of(STAGES, axes=("stage",)), between_layers()
    D, rng = POCKET.d_model, np.random.default_rng(0)
    shapes = {"up": (STAGES, D, F), "down": (STAGES, F, D)}
    parameters = {
        name: jnp.asarray(rng.standard_normal(shape) / np.sqrt(shape[1]) / 4, jnp.float32)
        for name, shape in shapes.items()
    }
    parameters = jax.device_put(parameters, NamedSharding(mesh, P("stage")))
    x_MTD, targets_MTD = jax.device_put((x_MTD, targets_MTD), NamedSharding(mesh, P()))
    run = (
        jax.jit(lambda *arrays: module.pipeline_step(layer, distance, *arrays, mesh))
        .lower(parameters, x_MTD, targets_MTD)
        .compile()
    )
    yield devices.sent(
        "What the devices send in your step",
        run,
        "Activations to the right, gradients to the left: one microbatch in each tick. The parameters stay where they "
        "are.",
    )

    def alone(parameters: Any) -> jax.Array:
        y_MTD = x_MTD
        for stage in range(STAGES):
            y_MTD = layer(jax.tree.map(lambda array, stage=stage: array[stage], parameters), y_MTD)
        return distance(y_MTD, targets_MTD)

    _, right = jax.jit(jax.value_and_grad(alone))(parameters)
    _, slopes = run(parameters, x_MTD, targets_MTD)
    sizes = [
        [float(jnp.sqrt(sum(jnp.sum(jnp.square(part[stage])) for part in of.values()))) for of in (slopes, right)]
        for stage in range(STAGES)
    ]
    yield Bars(
        "The size of the gradient of each stage",
        tuple(Bar(f"stage {stage}", *size) for stage, size in enumerate(sizes)),
        "norm",
        "Every stage learns, and as much as on one device."
        if all(np.isclose(mine, whole, rtol=1e-3) for mine, whole in sizes)
        else "They are not those of one device: what comes back does not reach every stage as it should.",
        names=("your pipeline", "one device"),
    )
    losses = []
    for step in range(STEPS):
        loss, slopes = run(parameters, x_MTD, targets_MTD)
        parameters = jax.tree.map(lambda array, slope: array - LEARNING_RATE * slope, parameters, slopes)
        losses.append(float(loss))
        yield Progress(step + 1, STEPS, losses[-1])
    yield Lines(
        "Four small layers on four devices learn what the last two layers of the trained model do",
        (Line("loss", np.arange(1, STEPS + 1), losses),),
        "1 is the error of layers that do nothing.",
        y="squared error, as a share",
    )


def layer(parameters: Any, x_TD: jax.Array) -> jax.Array:
    """One stage: a residual layer."""
    return x_TD + jax.nn.relu(x_TD @ parameters["up"]) @ parameters["down"]


def distance(y_TD: jax.Array, target_TD: jax.Array) -> jax.Array:
    """The mean squared error."""
    return jnp.mean(jnp.square(y_TD - target_TD))


def between_layers() -> tuple[Any, Any]:
    """The residual stream after the first layer and after the last, (M, T, D) each, on the scale of their
    difference."""
    rows = [ids[:T] for ids in held_out(MICROBATCHES)]
    x_MTD, y_MTD = (jnp.stack([stream(ids, layers) for ids in rows]) for layers in (1, POCKET.num_layers))
    scale = jnp.sqrt(jnp.mean(jnp.square(y_MTD - x_MTD)))
    return x_MTD / scale, y_MTD / scale
