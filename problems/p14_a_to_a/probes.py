"""Probes of problem 14: a model trained to repeat random tokens. Run in workers."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import Arrays, BadOutputError, Reading, Subject, eager, fill_state, given, named, sent, trace
from grader.problem import Case

ABSENT = 5  # tokens that are not in a batch


def starting(subject: Subject, case: Case) -> Reading:
    """The first loss of a run that begins with given parameters."""
    graphdef, parameters, rest = subject.build("AToA", case)

    def program(parameters: Any, token_ids: jax.Array) -> Arrays:
        updates = 0
        original = nnx.Optimizer.update

        def update(*args: Any, **kwargs: Any) -> None:
            nonlocal updates
            updates += 1
            original(*args, **kwargs)

        with patch.object(nnx.Optimizer, "update", update):
            losses = _learn(subject, nnx.merge(graphdef, parameters, rest), token_ids)
        # No check compares the count. It tells a step that never updates from one whose updates are lost.
        return {"first_loss": losses[0], "unchecked.updates": np.int32(updates)}

    return subject.run(program, case, parameters, given(case, "token_ids"))


@eager
def learning(subject: Subject, case: Case) -> Reading:
    """The logits of every token before and after a run, and the first and last loss that the run reports.

    The submission's process trains, on tokens of its own. What its parameters are worth is computed where it never ran.
    """
    V = int(case.values["vocab_size"])
    steps, B, T = (int(case.values[name]) for name in ("steps", "batch_size", "context"))
    rng = np.random.default_rng(V)
    token_ids = np.empty((steps, B, T), np.int32)
    for batch in token_ids:  # each lacks other tokens, so that no batch alone teaches all
        batch[...] = rng.choice(rng.permutation(V)[:-ABSENT], (B, T))
    model: Any = subject.constructor("AToA", case, nnx.Rngs(V))()
    before = _sent("before", nnx.split(model)[1])  # now, because training changes the model in place
    losses = _learn(subject, model, jnp.asarray(token_ids))
    graphdef, after = nnx.split(model)

    def program(before: Any, after: Any, losses: jax.Array) -> Arrays:
        every = jnp.arange(V)
        models = {"before": nnx.merge(graphdef, before), "after": nnx.merge(graphdef, after)}
        logits = {f"logits.{when}": model(every) for when, model in models.items()}
        return {**logits, "reported": jnp.stack([losses[0], losses[-1]])}

    return Reading(program=trace(program, before, _sent("after", after), sent("losses", losses)))


def read(arrays: Arrays, folder: Path | None, case: Case) -> Reading:
    """The losses of the logits, or those that the run reports if they are further off, and the most likely token after
    each."""
    V = int(case.values["vocab_size"])

    def loss(logits: Any) -> Any:
        shifted = logits - logits.max(-1, keepdims=True)
        return np.mean(np.log(np.exp(shifted).sum(-1)) - np.diag(shifted))

    first, last = (loss(arrays[f"logits.{when}"].astype(float)) for when in ("before", "after"))
    reported_first, reported_last = arrays["reported"].astype(float)
    finite = np.isfinite(arrays["logits.after"]).all(-1)
    distance = max(abs(first - np.log(V)), abs(reported_first - np.log(V)))
    return Reading(
        {
            "distance_from_ln_V": np.float32(distance),
            "last_loss": np.float32(max(last, abs(reported_last))),
            "repeats": np.where(finite, np.argmax(arrays["logits.after"], -1), -1).astype(np.int32),
            # No check compares this leaf. It tells a copy that is trained from a model that does not train.
            "unchecked.reported": arrays["reported"],
        }
    )


def _sent(prefix: str, state: Any) -> Any:
    arrays = named(state, "")
    return fill_state(state, lambda path, shape, dtype: sent(f"{prefix}.{path}", arrays[path]))


def _learn(subject: Subject, model: nnx.Module, token_ids: jax.Array) -> jax.Array:
    losses = subject.call("learn_identity", model, token_ids)
    if np.shape(losses) != token_ids.shape[:1]:
        raise BadOutputError(
            f"`learn_identity` must return one loss for each of the {len(token_ids)} steps; yours has shape "
            f"{np.shape(losses)}"
        )
    return jnp.asarray(losses)


PROBES = {"starting": starting, "learning": learning}
READERS = {"learning": read}
