"""Problem 46: Muon as an optax transformation. The page is in pages/p46_muon.md."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float


def orthogonalize(matrix: Float[Array, "A B"], steps: int) -> Float[Array, "A B"]:
    """The matrix, (A, B), with all its singular values moved close to
    1 by Newton-Schulz steps."""
    raise NotImplementedError


def muon(
    learning_rate: float,
    beta: float,
    weight_decay: float,
    rest: optax.GradientTransformation,
) -> optax.GradientTransformation:
    """Muon for the kernels of hidden layers, and `rest` for all other parameters.

    `update(gradients, state, parameters)` returns the pair (updates to add to
    the parameters, new state).
    """
    raise NotImplementedError
