"""The probe of problem 14: a fresh model, trained to repeat random tokens. Runs in workers."""

from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, fill_module, fill_state, named
from grader.worker.subject import Arrays, Reading, Subject, eager
from grader.worker.tracing import sent, trace


@eager
def learning(subject: Subject, case: Case) -> Reading:
    """The first loss of a run, the first loss of given parameters, and what the trained model makes of every token.

    The submission's process trains. Its losses are what it says; what the parameters are worth is computed where it never ran.
    """
    token_ids = jnp.asarray(case.values["token_ids"])
    V = int(case.values["vocab_size"])  # type: ignore[arg-type]
    given = subject.constructor("AToA", case)()
    fill_module(given, case.seed)
    with patch.object(nnx.Optimizer, "update", autospec=True, side_effect=nnx.Optimizer.update) as update:
        first = _learn(subject, given, token_ids[:1])
    model: Any = subject.constructor("AToA", case)()
    losses = _learn(subject, model, token_ids)
    graphdef, state = nnx.split(model)
    said = {"first_loss": first[0], "distance_from_ln_V": jnp.abs(losses[0] - np.log(V)), "said": losses[-1]}

    def program(state: Any, said: Arrays) -> Arrays:
        every = jnp.arange(V)
        logits = nnx.merge(graphdef, state)(every)
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, every).mean()
        return {
            "first_loss": said["first_loss"],
            "distance_from_ln_V": said["distance_from_ln_V"],
            "last_loss": jnp.maximum(loss, jnp.abs(said["said"])),
            "repeats": jnp.argmax(logits, -1),
            # No check compares this leaf. It tells a step that never updates from one whose updates are lost.
            "unchecked.updates": np.int32(update.call_count),
        }

    state = fill_state(state, lambda path, shape, dtype: sent(path, _at(state, path)))
    return Reading(program=trace(program, state, {name: sent(name, value) for name, value in said.items()}))


def _at(state: Any, path: str) -> Any:
    return named(state, "")[path]


def _learn(subject: Subject, model: nnx.Module, token_ids: jax.Array) -> jax.Array:
    losses = subject.call("learn_identity", model, token_ids)
    if np.shape(losses) != token_ids.shape[:1]:
        raise BadOutputError(
            f"`learn_identity` must return one loss for each of the {len(token_ids)} steps; yours has shape {np.shape(losses)}"
        )
    return jnp.asarray(losses)


PROBES = {"learning": learning}
