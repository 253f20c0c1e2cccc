"""Problem 45: weights in int8. The page is in pages/p45_int8_weights.md."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8


def quantize(
    kernel: Float[Array, "D F"],
) -> tuple[Int8[Array, "D F"], Float[Array, "F"]]:
    """The codes of a kernel, (D, F), from -127 to 127, and the scale of each column,
    (F,)."""
    raise NotImplementedError


def int8_matmul(
    x: Float[Array, "T D"],
    codes: Int8[Array, "D F"],
    scale: Float[Array, "F"],
) -> Float[Array, "T F"]:
    """x times the kernel that `codes` and `scale` stand for, (T, F),
    computed from int8 numbers."""
    raise NotImplementedError


def error_bound(
    x: Float[Array, "T D"],
    codes: Int8[Array, "D F"],
    scale: Float[Array, "F"],
) -> Float[Array, "T F"]:
    """An upper bound on the difference between `int8_matmul` and the product with the
    original kernel, (T, F)."""
    raise NotImplementedError
