"""Problem 57, reference: bits per byte, perplexity by sliding windows, and multiple choice."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Model = Callable[[Array], Array]


def score_text(model: Model, token_ids: Int[Array, "N"], context: int, stride: int) -> Float[Array, "N-1"]:
    """The log-probability of each token but the first, each scored once, in windows that overlap."""
    N, scored = len(token_ids), 1
    found = [jnp.zeros(0)]
    start = 0
    while scored < N:
        stop = min(start + context + 1, N)  # of the targets; the last of them is not an input
        log_p = _log_probabilities(model, token_ids[start:stop])
        found.append(log_p[scored - start - 1 :])
        start, scored = start + stride, stop
    return jnp.concatenate(found)


def perplexity(log_probs: Float[Array, "N-1"]) -> Float[Array, ""]:
    """The inverse of the geometric mean of the probabilities."""
    return jnp.exp(-jnp.mean(log_probs))


def bits_per_byte(
    log_probs: Float[Array, "N-1"], token_ids: Int[Array, "N"], byte_lengths: Int[Array, "V"]
) -> Float[Array, ""]:
    """All bits of the scored tokens over all their bytes."""
    return -jnp.sum(log_probs) / jnp.log(2) / jnp.sum(byte_lengths[token_ids[1:]])


def score_options(
    model: Model, prompt_ids: Int[Array, "N"], options: Sequence[Int[Array, "T"]], context: int
) -> Float[Array, "K"]:
    """The log-probability of each option after the prompt: the sum over its tokens."""
    scores = []
    for option in options:
        whole = jnp.concatenate([prompt_ids, option])[-(context + 1) :]
        scores.append(jnp.sum(_log_probabilities(model, whole)[-len(option) :]))
    return jnp.stack(scores)


def choose_option(log_probs: Float[Array, "K"], byte_counts: Int[Array, "K"]) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """The option with the highest log-probability, and the one with the highest log-probability per byte."""
    return jnp.argmax(log_probs), jnp.argmax(log_probs / byte_counts)


def _log_probabilities(model: Model, ids: Array) -> Array:
    """The log-probability of each of these tokens but the first, given those before it."""
    log_p = jax.nn.log_softmax(model(ids[:-1]))
    return jnp.take_along_axis(log_p, ids[1:, None], axis=1)[:, 0]
