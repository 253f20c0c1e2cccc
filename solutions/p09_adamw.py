"""Problem 09, reference: AdamW as an optax transformation."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree


class AdamWState(NamedTuple):
    """The state of AdamW. `mean` and `square` have the structure of the parameters."""

    count: Int[Array, ""]
    mean: PyTree
    square: PyTree


def adamw(
    learning_rate: float,
    b1: float,
    b2: float,
    epsilon: float,
    weight_decay: float,
    mask: Callable[[PyTree], PyTree] | None = None,
) -> optax.GradientTransformation:
    """AdamW: Adam (Kingma and Ba 2015) with decoupled weight decay (Loshchilov and Hutter 2019), of all or what `mask`
    says."""

    def init(parameters: PyTree) -> AdamWState:
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        return AdamWState(jnp.zeros((), jnp.int32), zeros, zeros)

    def update(gradients: PyTree, state: AdamWState, parameters: PyTree) -> tuple[PyTree, AdamWState]:
        count = state.count + 1
        mean = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.mean, gradients)
        square = jax.tree.map(lambda s, g: b2 * s + (1 - b2) * g**2, state.square, gradients)

        def move(m: Array, s: Array, p: Array, decays: bool) -> Array:
            m, s = m / (1 - b1**count), s / (1 - b2**count)
            return -learning_rate * (m / (jnp.sqrt(s) + epsilon) + weight_decay * p * decays)

        decays = mask(parameters) if mask else jax.tree.map(lambda _: True, parameters)
        return jax.tree.map(move, mean, square, parameters, decays), AdamWState(count, mean, square)

    return optax.GradientTransformation(init, update)


def decayed(parameters: PyTree) -> PyTree:
    """True for kernels and tables; False for biases, scales of norms and scalars."""
    return jax.tree.map(lambda parameter: parameter.ndim >= 2, parameters)
