"""Problem 11, reference: clipping by the global norm."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

TINY = 1e-12  # the smallest divisor: keeps a norm of 0 from giving NaN


def clip_by_global_norm(
    gradients: PyTree[Float[Array, "..."]], max_norm: float
) -> tuple[PyTree[Float[Array, "..."]], Float[Array, ""]]:
    """Gradients times one factor of at most 1 (Pascanu, Mikolov and Bengio 2013), and their norm before clipping."""
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(gradients)))
    factor = jnp.minimum(1.0, max_norm / jnp.maximum(norm, TINY))
    return jax.tree.map(lambda leaf: leaf * factor, gradients), norm
