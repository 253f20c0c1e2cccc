"""Problem 44: a Pallas kernel. The page is in pages/p44_pallas_kernel.md."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float


def rms_norm(
    x: Float[Array, "T D"],
    weight: Float[Array, "D"],
    epsilon: float,
    block: int,
) -> Float[Array, "T D"]:
    """Divides each row by √(mean(x²) + epsilon), and multiplies it by weight, in a
    kernel that gets `block` rows at a time.

    x: (T, D). weight: (D,). Returns (T, D).
    """
    raise NotImplementedError
