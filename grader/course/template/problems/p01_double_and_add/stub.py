"""Problem 01: Double and add one. The page is in pages/p01_double_and_add.md."""

import jax.numpy as jnp
from jaxtyping import Array, Float


# TODO: the entry: its full signature with shapes, and a docstring
def double_and_add(x: Float[Array, "T D"]) -> Float[Array, "T D"]:
    """x: (T, D). Returns 2 x + 1, (T, D)."""
    raise NotImplementedError
