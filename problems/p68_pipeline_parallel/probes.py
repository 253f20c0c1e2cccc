"""Problem 68's probe, a step of a pipeline on four CPU devices, and its measure of what the devices send. Run in
workers."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from grader.authoring import (
    Arrays,
    Execution,
    Reading,
    Subject,
    called_on_mesh,
    given,
    mesh_of,
    named,
    placed,
    small_ones_count,
    to_fill,
)
from grader.problem import Case

P = PartitionSpec
STAGES = 4


def stage(parameters: Any, x_BD: jax.Array) -> jax.Array:
    """A residual layer, whose output for zeros is not zero."""
    hidden_BF = jnp.tanh(x_BD @ parameters["up"] + parameters["bias"])
    return x_BD + hidden_BF @ parameters["down"]


def loss(y_BD: jax.Array, target_BD: jax.Array) -> jax.Array:
    return jnp.mean(jnp.square(y_BD - target_BD))


def training(subject: Subject, case: Case) -> Reading:
    """The loss and the gradients of one batch. Each device has the parameters of one stage."""
    mesh = mesh_of(STAGES, axes=("stage",))
    x, targets = (placed(given(case, name), mesh, P()) for name in ("x", "targets"))
    D, F = x.shape[-1], int(case.values["d_ff"])
    shapes = {"up": (STAGES, D, F), "bias": (STAGES, F), "down": (STAGES, F, D)}

    def program(parameters: Any, x: Any, targets: Any) -> Arrays:
        value, gradients = called_on_mesh(subject, "pipeline_step", stage, loss, parameters, x, targets, mesh)
        return {**named(value, "loss"), **named(gradients, "gradients")}

    parameters = {key: placed(to_fill(key, shape, "float32"), mesh, P("stage")) for key, shape in shapes.items()}
    return subject.run(program, case, parameters, x, targets)


def sent(execution: Execution) -> dict[str, Any]:
    """The bytes that collectives produce on each device, by permutations and by others. A few small ones do not
    count."""
    sizes = {"permutes": 0, "others": 0}
    all_count = small_ones_count(execution)
    for each in execution.collectives:
        if all_count or not each.is_small:
            sizes["permutes" if each.kind == "collective-permute" else "others"] += math.ceil(each.times * each.size)
    return {key: np.int64(size) for key, size in sizes.items()}


PROBES = {"training": training}
MEASURES = {"sent": sent}
