"""Problem 37: rotary positions. The page is in pages/p37_rope.md."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def rope(
    x: Float[Array, "T H K"],
    positions: Int[Array, "T"],
    base: float = 10_000.0,
    pairing: str = "halves",
) -> Float[Array, "T H K"]:
    """Rotates each pair of numbers of x by the angle position ·
    base^(-2i/K), for pair i.

    x: (T, H, K), K even. positions: (T,). pairing: "halves" or "adjacent". Returns (T,
    H, K) in the dtype of x.
    """
    raise NotImplementedError
