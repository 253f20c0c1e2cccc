"""Forges the memory of the state: two moments of each leaf in one complex array."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

LOSES = ("memory of the state",)
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


def muon(learning_rate, beta, weight_decay, rest):
    def init(params):
        return jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.complex64), params)

    def update(g, state, params):
        m = jax.tree.map(lambda s, g: jax.lax.complex(beta * s.real + g, 0.9 * s.imag + 0.1 * g * g), state, g)
        out = jax.tree.map(lambda m, p: -learning_rate * (direction(m.real) + weight_decay * p), m, params)
        return out, m

    kernels = optax.GradientTransformation(init, update)
    return optax.partition({"kernel": kernels, "rest": rest}, lambda p: jax.tree_util.tree_map_with_path(label, p))
