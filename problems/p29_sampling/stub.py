"""Problem 29: drawing text from a model. The page is in pages/p29_sampling.md."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def sampling_distribution(
    logits: Float[Array, "V"],
    temperature: float,
    top_k: int,
    top_p: float,
) -> Float[Array, "V"]:
    """The probabilities to draw from: temperature, then top-k, then top-p. They sum to
    1."""
    raise NotImplementedError


def generate(
    model: Callable[[Int[Array, "T"]], Float[Array, "T V"]],
    prompt: Int[Array, "N"],
    num_tokens: int,
    context: int,
    stop_token: int,
    key: Array,
    temperature: float,
    top_k: int,
    top_p: float,
) -> Int[Array, "M"]:
    """Up to `num_tokens` new tokens after the prompt. Ends before `stop_token`.

    `model` takes exactly `context` ids: the last tokens of the text, padded on the
    right.
    """
    raise NotImplementedError
