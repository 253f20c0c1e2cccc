"""The probe of problem 12: loss, gradients and norm of a batch in microbatches. Runs in workers."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from grader.authoring import Arrays, Reading, Subject, given, named, to_fill
from grader.problem import Case


def accumulating(subject: Subject, case: Case) -> Reading:
    """The mean loss, the clipped gradients by name, and their norm before clipping."""
    values = case.values
    V, D, F = (int(values[key]) for key in ("vocab_size", "d_model", "d_ff"))
    pad_id = V - 1

    def loss_sum(parameters: Any, token_ids: jax.Array) -> tuple[jax.Array, jax.Array]:
        first, second = parameters["hidden"]
        x = jax.nn.relu(parameters["embed"][token_ids] @ first["kernel"])
        x = jax.nn.relu(x @ second["kernel"] + second["bias"])
        losses = optax.softmax_cross_entropy_with_integer_labels((x @ parameters["head"])[:, :-1], token_ids[:, 1:])
        real = token_ids[:, 1:] != pad_id
        return jnp.sum(losses * real) * values["loss_scale"], jnp.sum(real)

    def program(parameters: Any, token_ids: Any) -> Arrays:
        sizes = (values["microbatches"], values["max_norm"])
        loss, gradients, norm = subject.call("accumulated_gradients", loss_sum, parameters, token_ids, *sizes)
        return {**named(loss, "loss"), **named(gradients, "gradients"), **named(norm, "norm")}

    def parameter(path: str, *shape: int) -> Any:
        return to_fill(path, shape, "float32")

    first = {"kernel": parameter("first", D, F)}
    second = {"kernel": parameter("second", F, F), "bias": parameter("bias", F)}
    parameters = {"embed": parameter("embed", V, D), "hidden": [first, second], "head": parameter("head", F, V)}
    return subject.run(program, case, parameters, given(case, "token_ids"))


PROBES = {"accumulating": accumulating}
