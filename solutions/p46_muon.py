"""Problem 46, reference: Muon as an optax transformation."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
TINY = 1e-8


def orthogonalize(matrix: Float[Array, "A B"], steps: int) -> Float[Array, "A B"]:
    """Newton-Schulz steps with the coefficients of Jordan et al. (2024), on the smaller side."""
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonalize(matrix.T, steps).T
    a, b, c = COEFFICIENTS
    x_AB = matrix / (jnp.linalg.norm(matrix) + TINY)
    for _ in range(steps):
        gram_AA = x_AB @ x_AB.T
        x_AB = a * x_AB + (b * gram_AA + c * gram_AA @ gram_AA) @ x_AB
    return x_AB


def label(path: Any, leaf: Array) -> str:
    """Which transformation updates a leaf."""
    name = jax.tree_util.keystr(path)
    return "kernel" if "kernel" in name and "head" not in name and leaf.ndim == 2 else "rest"


def direction(m: Float[Array, "A B"]) -> Float[Array, "A B"]:
    """An orthogonalized matrix with entries of about 0.2, like AdamW's (Liu et al. 2025, section 2.2)."""
    return 0.2 * max(m.shape) ** 0.5 * orthogonalize(m, STEPS)


def muon(
    learning_rate: float, beta: float, weight_decay: float, rest: optax.GradientTransformation
) -> optax.GradientTransformation:
    """Momentum, orthogonalized, with decoupled weight decay for hidden kernels; `rest` for the others."""

    def labels(parameters: PyTree) -> PyTree:
        return jax.tree_util.tree_map_with_path(label, parameters)

    kernels = optax.chain(
        optax.trace(beta),
        optax.stateless(lambda m, _: jax.tree.map(direction, m)),
        optax.add_decayed_weights(weight_decay),
        optax.scale(-learning_rate),
    )
    return optax.partition({"kernel": kernels, "rest": rest}, labels)
