"""Problem 69, played: a model of stories on eight devices, trained by the learner's split optimizer."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding, PartitionSpec

from grader.authoring import mesh_of
from grader.exhibits import Exhibits, LearnerModule, Line, Lines, Progress
from problems.stage import devices
from problems.stage.model import gpt
from problems.stage.tuning import target_log_probabilities
from problems.stage.weights import before_training, held_out

TRAINS = True
P = PartitionSpec
T, ROWS, STEPS, LEARNING_RATE, MAX_NORM = 24, 8, 16, 0.003, 1.0


def play(module: LearnerModule) -> Exhibits:
    """Where the moments lie, what a step sends, and the losses beside those of one device."""
    mesh, graph = mesh_of(8), nnx.graphdef(gpt(1, before_training()))
    parameters = nnx.to_pure_dict(nnx.state(gpt(1, before_training()), nnx.Param))
    replicated, rows = NamedSharding(mesh, P()), NamedSharding(mesh, P("data", None))

    def loss_sum(parameters: Any, ids_BT: jax.Array) -> tuple[jax.Array, jax.Array]:
        model = nnx.merge(graph, nnx.State(parameters))
        return -jnp.sum(target_log_probabilities(model, ids_BT)), jnp.int32(ids_BT[:, 1:].size)

    state = module.zero_state(parameters, mesh)
    each = int(devices.bytes_on_each([state["m"], state["v"]]).max())
    whole = sum(leaf.nbytes for leaf in (state["m"], state["v"]))
    yield devices.held(
        "The moments that your `zero_state` creates",
        [state["m"], state["v"]],
        f"A device holds {each:,} of {whole:,} bytes. Eight copies would be the same numbers eight times."
        if each < whole / 7
        else f"A device holds {each:,} of {whole:,} bytes: the moments are not split.",
    )

    def step(parameters: Any, state: Any, ids_BT: jax.Array) -> Any:
        return module.zero_step(loss_sum, parameters, state, ids_BT, mesh, LEARNING_RATE, MAX_NORM)

    ids_NBT = np.stack([ids[:T] for ids in held_out(STEPS * ROWS)]).reshape(STEPS, ROWS, T)
    placed = jax.device_put(parameters, replicated)
    run = jax.jit(step).lower(placed, state, jax.device_put(ids_NBT[0], rows)).compile()
    yield devices.sent(
        "What the devices send in your step",
        run,
        "A scatter of the gradients and a gather of the parameters. Together, they move as many bytes over the wires "
        "as the sum of all gradients would.",
    )

    tx = optax.chain(optax.clip_by_global_norm(MAX_NORM), optax.adam(LEARNING_RATE))

    @jax.jit
    def alone(parameters: Any, moments: Any, ids_BT: jax.Array) -> Any:
        def loss(parameters: Any) -> jax.Array:
            total, count = loss_sum(parameters, ids_BT)
            return total / count

        value, slopes = jax.value_and_grad(loss)(parameters)
        updates, moments = tx.update(slopes, moments)
        return optax.apply_updates(parameters, updates), moments, value, jnp.linalg.norm(ravel_pytree(slopes)[0])

    moments, found = tx.init(parameters), []
    for number, ids_BT in enumerate(ids_NBT):
        placed, state, loss, norm = run(placed, state, jax.device_put(ids_BT, rows))
        parameters, moments, right, right_norm = alone(parameters, moments, ids_BT)
        found.append([float(x) for x in (loss, right, norm, right_norm)])
        yield Progress(number + 1, STEPS, found[-1][0])
    losses, plain, norms, plain_norms = np.transpose(found)
    numbers = np.arange(1, STEPS + 1)
    apart = float(np.abs(losses - plain).max())
    yield Lines(
        "The loss of your steps",
        (Line("eight devices", numbers, losses), Line("one device", numbers, plain)),
        "Both curves lie on each other: together, the devices take the step that one would take."
        if apart < 0.01
        else f"The curves are up to {apart:.2g} apart: together, the devices take another step than one would take.",
    )
    yield Lines(
        f"The norm of the gradient, which is clipped to {MAX_NORM:g}",
        (Line("yours", numbers, norms), Line("one device", numbers, plain_norms)),
        "It is that of the whole gradient, although no device has all of it."
        if np.allclose(norms, plain_norms, rtol=0.01)
        else "It is not that of the whole gradient.",
        y="norm",
    )
