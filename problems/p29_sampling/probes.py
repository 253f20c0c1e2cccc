"""Probes of problem 29: the greedy text of a causal model, and the frequencies of drawn tokens. Run in workers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.problem import Case
from grader.worker.pytrees import BadOutputError, described
from grader.worker.subject import Arrays, Reading, Subject, eager

DRAWS, FEW, OTHERS = 600, 12, (1, 2, 3, 4)
NEVER = 10**6


@eager
def generating(subject: Subject, case: Case) -> Reading:
    """The greedy text, padded with -1, and the same text with one of its tokens as the stop token."""
    model, n = _model(case), int(case.values["num_tokens"])
    text = _generate(subject, case, model, n, NEVER)
    arrays = {"text": _padded(text, n)}
    if len(text) > 2:
        # The stop token is one that the text holds, but not at its start.
        stop = next((int(token) for token in text[1:] if token != text[0]), NEVER)
        arrays["stopped"] = _padded(_generate(subject, case, model, n, stop), n)
    return Reading(arrays)


@eager
def first_drawing(subject: Subject, case: Case) -> Reading:
    """A short text, drawn in another process than those of `drawing`."""
    return Reading({"text": _drawn(subject, case, FEW)})


@eager
def drawing(subject: Subject, case: Case) -> Reading:
    """Texts drawn from a model with constant logits: a long one, and short ones with the same key and with others."""
    return Reading(
        {
            "text": _drawn(subject, case, DRAWS),
            "again": _drawn(subject, case, FEW),
            # One other key may give the same text by chance if all its tokens are the same.
            "others": np.stack([_drawn(subject, case, FEW, seed) for seed in OTHERS]),
        }
    )


def _drawn(subject: Subject, case: Case, n: int, seed: int = 0) -> np.ndarray[Any, Any]:
    logits = jnp.asarray(case.values["ranks"], jnp.float32) * 0.4

    def model(token_ids: jax.Array) -> jax.Array:
        return jnp.broadcast_to(logits, (len(token_ids), len(logits)))

    return _generate(subject, case, jax.jit(model), n, NEVER, seed)


def read(arrays: Arrays, folder: Path | None, case: Case) -> Reading:
    """How often each token was drawn, and what depends on the key."""
    V, text, first = int(case.values["vocab_size"]), arrays["text"], arrays["saved:text"]  # type: ignore[arg-type]
    return Reading(
        {
            "frequencies": np.bincount(np.clip(text, 0, V - 1), minlength=V).astype(np.float32) / DRAWS,
            "key.same_key_same_text": np.int32(np.array_equal(arrays["again"], first)),
            "key.other_key_other_text": np.int32(any(not np.array_equal(first, other) for other in arrays["others"])),
            "key.tokens_differ": np.int32(len(set(text.tolist())) > 1),
        }
    )


def _model(case: Case) -> Callable[[Any], Any]:
    V = int(case.values["vocab_size"])
    table = jnp.asarray(np.random.default_rng(case.seed).standard_normal((V, V)), jnp.float32)
    # The next token depends on every token so far and on their order.
    program = jax.jit(lambda ids: table[jnp.cumsum((2 * jnp.arange(len(ids)) + 3) * (ids + 1)) % V])
    context = int(case.values["context"])

    def model(token_ids: Any) -> Any:
        if np.shape(token_ids) != (context,):
            raise BadOutputError(
                f"`generate` called the model with ids of shape {np.shape(token_ids)}; it takes exactly (T,) = ({context},)"
            )
        return program(jnp.asarray(token_ids))

    return model


def _generate(subject: Subject, case: Case, model: Any, n: int, stop: int, seed: int = 0) -> np.ndarray[Any, Any]:
    values = case.values
    key = jax.random.key(int(values["seed"]) + seed)
    token_ids = subject.call(
        "generate", model, jnp.asarray(values["prompt"]), n, values["context"], stop, key, values["temperature"], 0, 1.0
    )
    if not isinstance(token_ids, jax.Array | np.ndarray | list):
        raise BadOutputError(f"`generate` returned {described(token_ids)}; it must return the new token ids, (M,)")
    text = np.asarray(token_ids)
    if text.ndim != 1 or len(text) > n:
        raise BadOutputError(
            f"`generate` returned an array of shape {text.shape}; it must be (M,), M at most num_tokens = {n}"
        )
    return text.astype(np.int32)


def _padded(text: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    return np.concatenate([text, np.full(n - len(text), -1, np.int32)])


PROBES = {"generating": generating, "first_drawing": first_drawing, "drawing": drawing}
READERS = {"drawing": read}
