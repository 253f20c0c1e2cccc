"""Problem 73: the experts of today. The page is in pages/p73_experts_today.md."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def route(
    x: Float[Array, "T D"], w: Float[Array, "D E"], bias: Float[Array, "E"], k: int
) -> tuple[Int[Array, "T k"], Float[Array, "T k"]]:
    """Returns the k experts of each token, (T, k), by score plus bias, and their
    weights, (T, k), by score alone."""
    raise NotImplementedError


def update_bias(
    bias: Float[Array, "E"],
    counts: Int[Array, "E"],
    rate: float,
) -> Float[Array, "E"]:
    """Returns the bias (E,) after a step in which `counts` (E,)
    tokens chose each expert."""
    raise NotImplementedError


def moe(
    x: Float[Array, "T D"],
    w: Float[Array, "D E"],
    bias: Float[Array, "E"],
    k: int,
    w_in: Float[Array, "E D 2*F"],
    w_out: Float[Array, "E F D"],
    shared_in: Float[Array, "D 2*M"],
    shared_out: Float[Array, "M D"],
) -> tuple[Float[Array, "T D"], Int[Array, "E"]]:
    """Returns the output (T, D), and how many tokens chose each expert, (E,).
    Every choice is computed."""
    raise NotImplementedError
