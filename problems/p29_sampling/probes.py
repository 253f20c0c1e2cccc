"""Probes of problem 29: the greedy text of a causal model, and the frequencies of drawn tokens. Run in workers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.authoring import Arrays, BadOutputError, Reading, Subject, described, eager
from grader.problem import Case

# Many short texts: a program whose arrays grow with the text compiles once for each length.
TEXTS, LENGTH, FEW = 24, 25, 12
OTHERS = (1, 2, 3, 4)
FILTERED = 3  # texts drawn with TOP_K, and as many with TOP_P; each excludes tokens of a total probability above 0.1
TOP_K, TOP_P = 3, 0.6
NEVER = 10**6


@eager
def generating(subject: Subject, case: Case) -> Reading:
    """The greedy text, padded with -1, and the same text with one of its tokens as the stop token.

    If the text depends on the key, it is not returned: it would say more about the key than about the code.
    """
    model, n = _model(case), int(case.values["num_tokens"])
    text = _generate(subject, case, model, n, NEVER)
    depends = not np.array_equal(text, _generate(subject, case, model, n, NEVER, seed=1))
    # One stop token is in the text but not at its start, the other is its first token.
    inside = next((int(token) for token in text[1:] if token != text[0]), NEVER)
    stops = {"stopped": inside, "stopped.at_once": int(text[0]) if len(text) else NEVER}
    texts = {"text": text, **{name: _generate(subject, case, model, n, stop) for name, stop in stops.items()}}
    texts["text.after_one_token"] = _generate(subject, case, model, 1, NEVER, prompt=1)
    nothing = np.zeros(0, np.int32)
    return Reading(
        {f"{name}.depends_on_key": np.int32(depends) for name in ("text", "stopped")}
        | {name: _padded(nothing if depends else tokens, n) for name, tokens in texts.items()}
    )


@eager
def first_drawing(subject: Subject, case: Case) -> Reading:
    """A short text, drawn in another process than those of `drawing`."""
    return Reading({"text": _drawn(subject, case, FEW)})


@eager
def drawing(subject: Subject, case: Case) -> Reading:
    """Texts drawn from models with constant logits: many to count their tokens, and short ones with the same key and
    others."""
    return Reading(
        {
            "texts": np.stack([_drawn(subject, case, LENGTH, i, i) for i in range(TEXTS)]),
            "again": _drawn(subject, case, FEW),
            # One other key may give the same text by chance if all its tokens are the same.
            "others": np.stack([_drawn(subject, case, FEW, seed) for seed in OTHERS]),
            "top_k": np.stack([_drawn(subject, case, LENGTH, i, top_k=TOP_K) for i in range(FILTERED)]),
            "top_p": np.stack([_drawn(subject, case, LENGTH, i, top_p=TOP_P) for i in range(FILTERED)]),
        }
    )


@jax.jit
def _constant(token_ids: jax.Array, logits: jax.Array) -> jax.Array:
    return jnp.broadcast_to(logits, (len(token_ids), len(logits)))


def _ranks(case: Case, turn: int = 0) -> np.ndarray[Any, Any]:
    """The rank of each token, 0 for the most likely. Each turn gives every rank to another token."""
    return np.roll(np.asarray(case.values["ranks"]), turn)


def _drawn(subject: Subject, case: Case, n: int, seed: int = 0, turn: int = 0, **filters: Any) -> np.ndarray[Any, Any]:
    logits = jnp.asarray(_ranks(case, turn), jnp.float32) * -0.4
    text = _generate(subject, case, lambda token_ids: _constant(token_ids, logits), n, NEVER, seed, **filters)
    return _padded(text, n)


def read(arrays: Arrays, folder: Path | None, case: Case) -> Reading:
    """What depends on the key, and how often the token of each rank was drawn.

    Frequencies are counted only where every text is complete and every token an independent draw: otherwise they say no
    more than the stop token or the key does.
    """
    V, texts, first = int(case.values["vocab_size"]), arrays["texts"], arrays["saved:text"]
    ranks = np.stack([_ranks(case, i)[np.clip(text, 0, V - 1)] for i, text in enumerate(texts)])
    of_filtered = {name: _ranks(case)[np.clip(arrays[name], 0, V - 1)] for name in ("top_k", "top_p")}
    logits = -0.4 * np.arange(V) / float(case.values["temperature"])
    before = np.cumsum(np.exp(logits)) / np.exp(logits).sum() - np.exp(logits) / np.exp(logits).sum()
    kept = {"top_k": TOP_K, "top_p": int(np.sum(before < TOP_P))}
    key = {
        "same_key_same_text": np.array_equal(arrays["again"], first),
        "other_key_other_text": any(not np.array_equal(first, other) for other in arrays["others"]),
        "tokens_differ": any(len(set(text.tolist())) > 1 for text in texts),
        "always_the_most_likely": not ranks.any(),
    }
    independent = key["same_key_same_text"] and key["other_key_other_text"] and key["tokens_differ"]
    ended = bool(np.any(texts < 0))
    counted = ranks if independent and not ended else ranks[:0]
    return Reading(
        {f"key.{name}": np.int32(value) for name, value in key.items()}
        | {
            "frequencies.ended_early": np.int32(ended),
            "frequencies.draws": np.int32(counted.size),
            "frequencies": np.bincount(counted.ravel(), minlength=V).astype(np.float32) / ranks.size,
        }
        | {
            f"frequencies.outside_{name}": np.int32(independent and np.any(found >= kept[name]))
            for name, found in of_filtered.items()
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
                f"`generate` called the model with ids of shape {np.shape(token_ids)}; it takes exactly (T,) = "
                f"({context},)"
            )
        return program(jnp.asarray(token_ids))

    return model


def _generate(
    subject: Subject,
    case: Case,
    model: Any,
    n: int,
    stop: int,
    seed: int = 0,
    prompt: int | None = None,
    top_k: int = 0,
    top_p: float = 1.0,
) -> np.ndarray[Any, Any]:
    values = case.values
    key = jax.random.key(int(values["seed"]) + seed)
    token_ids = subject.call(
        "generate",
        model,
        jnp.asarray(values["prompt"])[:prompt],
        n,
        values["context"],
        stop,
        key,
        values["temperature"],
        top_k,
        top_p,
    )
    if not isinstance(token_ids, jax.Array | np.ndarray | list):
        raise BadOutputError(f"`generate` returned {described(token_ids)}; it must return the new token ids, (M,)")
    text = np.asarray(token_ids)
    if text.ndim != 1 or len(text) > n:
        raise BadOutputError(
            f"`generate` returned an array of shape {text.shape}; it must be (M,), M at most num_tokens = {n}"
        )
    if isinstance(token_ids, jax.Array | np.ndarray) and text.dtype.kind not in "iu":  # also one without any token
        raise BadOutputError(f"`generate` returned an array of {text.dtype}; it must be of int32")
    return text.astype(np.int32)


def _padded(text: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    return np.concatenate([text, np.full(n - len(text), -1, np.int32)])


PROBES = {"generating": generating, "first_drawing": first_drawing, "drawing": drawing}
READERS = {"drawing": read}
