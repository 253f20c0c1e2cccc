"""Problem 57: evaluation of a language model.

The page is in pages/p57_evaluation.md.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Model = Callable[[Array], Array]  # (T,) ids, T at most `context` -> (T, V) logits


def score_text(
    model: Model,
    token_ids: Int[Array, "N"],
    context: int,
    stride: int,
) -> Float[Array, "N-1"]:
    """The log-probability, in nats, of each token but the first, (N - 1,).

    Windows of `context` tokens begin every `stride` tokens. Each token is scored in the
    first window that predicts it.
    """
    raise NotImplementedError


def perplexity(log_probs: Float[Array, "N-1"]) -> Float[Array, ""]:
    """The perplexity of tokens with these log-probabilities."""
    raise NotImplementedError


def bits_per_byte(
    log_probs: Float[Array, "N-1"],
    token_ids: Int[Array, "N"],
    byte_lengths: Int[Array, "V"],
) -> Float[Array, ""]:
    """The bits of the scored tokens, `token_ids[1:]`, per byte of their text.
    `byte_lengths` are those of all tokens."""
    raise NotImplementedError


def score_options(
    model: Model,
    prompt_ids: Int[Array, "N"],
    options: Sequence[Int[Array, "T"]],
    context: int,
) -> Float[Array, "K"]:
    """The log-probability, in nats, of each option as the
    continuation of the prompt."""
    raise NotImplementedError


def choose_option(
    log_probs: Float[Array, "K"],
    byte_counts: Int[Array, "K"],
) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """The number of the likeliest option, and of the one with the highest
    log-probability per byte. The first wins a tie."""
    raise NotImplementedError
