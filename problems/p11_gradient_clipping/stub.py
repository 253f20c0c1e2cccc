"""Problem 11: clipping by the global norm.

The page is in pages/p11_gradient_clipping.md.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree


def clip_by_global_norm(
    gradients: PyTree[Float[Array, "..."]], max_norm: float
) -> tuple[PyTree[Float[Array, "..."]], Float[Array, ""]]:
    """The pair (gradients, scaled down to the norm `max_norm` if they are longer;
    their norm before clipping)."""
    raise NotImplementedError
