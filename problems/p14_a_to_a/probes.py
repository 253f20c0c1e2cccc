"""The probe of problem 14: a fresh model, trained to repeat random tokens. Runs in workers."""

from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, fill_module
from grader.worker.subject import Reading, Subject


def learning(subject: Subject, case: Case) -> Reading:
    """The first and last loss of a run, the tokens that the trained model gives, and the first loss of given parameters."""
    token_ids = jnp.asarray(case.values["token_ids"])
    V = int(case.values["vocab_size"])
    given = subject.constructor("AToA", case)()
    fill_module(given, case.seed)
    with patch.object(nnx.Optimizer, "update", autospec=True, side_effect=nnx.Optimizer.update) as update:
        first = _learn(subject, given, token_ids[:1])
    model: Any = subject.constructor("AToA", case)()
    losses = _learn(subject, model, token_ids)
    return Reading(
        {
            "first_loss": first[0],
            "distance_from_ln_V": jnp.abs(losses[0] - np.log(V)),
            "last_loss": jnp.abs(losses[-1]),
            "repeats": jnp.argmax(model(jnp.arange(V)), -1),
            # No check compares this leaf. It tells a step that never updates from one whose updates are lost.
            "updates": np.int32(update.call_count),
        }
    )


def _learn(subject: Subject, model: nnx.Module, token_ids: jax.Array) -> jax.Array:
    losses = subject.call("learn_identity", model, token_ids)
    if np.shape(losses) != token_ids.shape[:1]:
        raise BadOutputError(
            f"`learn_identity` must return one loss for each of the {len(token_ids)} steps; yours has shape {np.shape(losses)}"
        )
    return jnp.asarray(losses)


PROBES = {"learning": learning}
