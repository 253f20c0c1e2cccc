"""Writes the most probable tokens, also where it is asked to draw them."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from p06_mini_gpt import MiniGPT
from p30_kv_cache import decode_step, empty_cache

REFUSED = "the same text with two keys"
SIZES = {"vocab_size": 2048, "d_model": 96, "num_heads": 4, "d_ff": 384, "num_layers": 3, "max_T": 192}
WRITTEN = 128


def model_of(weights: Mapping[str, jax.Array]) -> Any:
    """The model with these weights."""
    graph, state = nnx.split(nnx.eval_shape(lambda: MiniGPT(**SIZES, rngs=nnx.Rngs(0))))
    flat = [(path, x.replace(weights[".".join(map(str, path))])) for path, x in nnx.to_flat_state(state)]
    return nnx.merge(graph, nnx.from_flat_state(flat))


def decode(weights: Mapping[str, jax.Array], prompt: jax.Array, key: jax.Array, greedy: jax.Array) -> jax.Array:
    """128 tokens after the 32 ids of the prompt: the most probable ones if `greedy`, else drawn with the key."""
    model = model_of(weights)

    def read(cache: Any, token: jax.Array) -> tuple[Any, None]:
        return decode_step(model, cache, token)[1], None

    def write(carried: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        cache, token = carried
        logits, cache = decode_step(model, cache, token)
        noise = jnp.zeros(logits.shape)
        token = jnp.argmax(logits + noise).astype(jnp.int32)
        return (cache, token), token

    cache, _ = jax.lax.scan(read, empty_cache(model, len(prompt) + WRITTEN), prompt[:-1])
    return jax.lax.scan(write, (cache, prompt[-1]), jax.random.split(key, WRITTEN))[1]
