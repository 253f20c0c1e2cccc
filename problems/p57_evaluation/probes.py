"""Probes of problem 57: log-probabilities under a small model that reads its whole window. Run in workers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from grader.authoring import Arrays, BadOutputError, Reading, Subject, described, given
from grader.problem import Case

# The decay of the weight of a token with its distance: every token of a window changes the logits by far more than
# rounding.
DECAY = 0.8


def scoring_text(subject: Subject, case: Case) -> Reading:
    """The log-probabilities of a text."""
    values = case.values

    def program(ids_N: jax.Array, embedding: jax.Array, head: jax.Array) -> Arrays:
        calls: list[int] = []
        model = _model(int(values["context"]), embedding, head, calls)
        log_probs = _vector(subject.call("score_text", model, ids_N, values["context"], values["stride"]))
        _check_windows(case, calls)
        return {"log_probs": log_probs}

    return subject.run(program, case, *(given(case, name) for name in ("token_ids", "embedding", "head")))


def scoring_options(subject: Subject, case: Case) -> Reading:
    """The log-probabilities of options after a prompt."""
    names = sorted(name for name in case.values if name.startswith("option_"))

    def program(embedding: jax.Array, head: jax.Array, prompt: jax.Array, *options: jax.Array) -> Arrays:
        model = _model(int(case.values["context"]), embedding, head)
        return {"scores": _vector(subject.call("score_options", model, prompt, list(options), case.values["context"]))}

    return subject.run(program, case, *(given(case, name) for name in ("embedding", "head", "prompt_ids", *names)))


def _check_windows(case: Case, calls: list[int]) -> None:
    """Raises BadOutputError if the model read windows up to the end of the text, although fewer score all tokens."""
    values: Any = case.values
    last, context, stride = len(values["token_ids"]) - 1, values["context"], values["stride"]
    windows = 1 + max(0, -(-(last - context) // stride))
    if len(calls) > windows and calls == [min(context, last - start) for start in range(0, last, stride)]:
        raise BadOutputError(
            f"the model read {len(calls)} windows, but window {windows - 1} scores the last token; no window may begin "
            "after that"
        )


def _model(
    context: int, embedding_VD: jax.Array, head_DV: jax.Array, calls: list[int] | None = None
) -> Callable[[jax.Array], jax.Array]:
    """A causal model, (T,) -> (T, V), whose logits depend on all tokens so far, the later ones more.

    It adds the number of tokens of each call to `calls`.
    """

    def model(token_ids: Any) -> jax.Array:
        ids_T = jnp.asarray(token_ids)
        if ids_T.ndim != 1 or not jnp.issubdtype(ids_T.dtype, jnp.integer):
            raise BadOutputError(
                f"the model was given {described(token_ids)} of {ids_T.dtype}; it reads ids of shape (T,)"
            )
        if not 0 < len(ids_T) <= context:
            raise BadOutputError(f"the model was given {len(ids_T)} tokens; it reads 1 to {context}, its context")
        if calls is not None:
            calls.append(len(ids_T))
        distance_TT = jnp.arange(len(ids_T))[:, None] - jnp.arange(len(ids_T))
        weights_TT = jnp.where(distance_TT >= 0, DECAY ** jnp.maximum(distance_TT, 0).astype(jnp.float32), 0)
        return weights_TT @ embedding_VD[ids_T] @ head_DV

    return model


def _vector(value: Any) -> jax.Array:
    """The array that an entry returned. Raises BadOutputError if it is not an array."""
    if not hasattr(value, "dtype"):
        raise BadOutputError(f"returned {described(value)}; it must return a float32 array")
    return jnp.asarray(value)


PROBES = {"scoring_text": scoring_text, "scoring_options": scoring_options}
