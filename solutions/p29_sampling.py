"""Problem 29, reference: drawing text from a model."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def sampling_distribution(logits: Float[Array, "V"], temperature: float, top_k: int, top_p: float) -> Float[Array, "V"]:
    """Applies temperature, top-k (Fan et al. 2018), then top-p (Holtzman et al. 2020)."""
    if temperature == 0:
        return jax.nn.one_hot(jnp.argmax(logits), len(logits))
    odds = jax.nn.softmax(logits / temperature)
    if top_k:
        smallest = jax.lax.top_k(odds, top_k)[0][-1]
        odds = jnp.where(odds >= smallest, odds, 0)
        odds = odds / jnp.sum(odds)
    order = jnp.argsort(-odds)
    before = jnp.cumsum(odds[order]) - odds[order]
    keeps = (before < top_p) | (top_p == 1)  # a cumulative sum rounds to 1 before the last tokens
    kept = jnp.zeros(len(odds), bool).at[order].set(keeps)
    odds = jnp.where(kept, odds, 0)
    return odds / jnp.sum(odds)


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
    """Pads to one shape, so that the model compiles once, and reads the row of the last real token."""
    distribution = jax.jit(sampling_distribution, static_argnums=(1, 2, 3))
    tokens = [int(token) for token in prompt]
    for _ in range(num_tokens):
        recent = tokens[-context:]
        window_T = jnp.array(recent + [0] * (context - len(recent)))
        logits = model(window_T)[len(recent) - 1]
        key, this = jax.random.split(key)
        odds = distribution(logits, temperature, top_k, top_p)
        token = int(jax.random.categorical(this, jnp.log(odds)))
        if token == stop_token:
            break
        tokens.append(token)
    return jnp.array(tokens[len(prompt) :], jnp.int32)
