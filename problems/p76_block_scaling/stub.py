"""Problem 76: block scaling. The page is in pages/p76_block_scaling.md."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


def quantize_blocks(
    x: Float[Array, "... D"], kind: str, key: Key[Array, ""] | None = None
) -> tuple[Float[Array, "... D"], Float[Array, "... B"]]:
    """The codes of x, (..., D), and a scale for each block of 32 numbers along its last
    axis, (..., D / 32). With a key, the codes are rounded at random."""
    raise NotImplementedError


def block_matmul(
    x: Float[Array, "T D"],
    kernel: Float[Array, "D F"],
    kind: str,
) -> Float[Array, "T F"]:
    """x times the kernel, (T, F), from products of codes. So are its gradients."""
    raise NotImplementedError


def error_bound(
    x: Float[Array, "T D"],
    kernel: Float[Array, "D F"],
    kind: str,
) -> Float[Array, "T F"]:
    """An upper bound on the difference between `block_matmul` and
    the exact product, (T, F)."""
    raise NotImplementedError
