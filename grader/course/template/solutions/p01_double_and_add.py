"""Problem 01, reference: Double and add one."""

import jax.numpy as jnp
from jaxtyping import Array, Float


# TODO: the reference: the solution, to be read from top to bottom
def double_and_add(x: Float[Array, "T D"]) -> Float[Array, "T D"]:
    """The doubled row, plus one."""
    doubled = 2 * x
    one = jnp.ones_like(x)
    return doubled + one
