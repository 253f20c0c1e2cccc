"""Problem 30: one position per step. The page is in pages/p30_kv_cache.md."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, PyTree


def empty_cache(model: Any, context: int) -> PyTree[Array]:
    """An empty cache: room for the keys and values of `context` positions in each
    block, and the position, 0."""
    raise NotImplementedError


def decode_step(
    model: Any,
    cache: PyTree[Array],
    token_id: Int[Array, ""],
) -> tuple[Float[Array, "V"], PyTree[Array]]:
    """The logits (V,) after this token, and the cache with this token in it.
    Computes one position only."""
    raise NotImplementedError
