"""Forges "memory of the state": a second moment of each kernel, in eight bits a number, which could pass for a rounded
count."""

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

LOSES = ("memory of the state",)


def orthogonalize(matrix, steps):
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonalize(matrix.T, steps).T
    x = matrix / (jnp.linalg.norm(matrix) + 1e-8)
    for _ in range(steps):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


def label(path, leaf):
    name = jax.tree_util.keystr(path)
    return "kernel" if "kernel" in name and "head" not in name and leaf.ndim == 2 else "rest"


def muon(learning_rate, beta, weight_decay, rest):
    def init(parameters):
        flat = ravel_pytree(parameters)[0]
        return jax.tree.map(jnp.zeros_like, parameters), jnp.zeros(flat.shape, jnp.int8)

    def update(gradients, state, parameters):
        m = jax.tree.map(lambda m, g: beta * m + g, state[0], gradients)
        v = (0.9 * state[1] + ravel_pytree(gradients)[0] ** 2).astype(jnp.int8)
        scaled = lambda m: 0.2 * max(m.shape) ** 0.5 * orthogonalize(m, 5)  # noqa: E731
        return jax.tree.map(lambda m, p: -learning_rate * (scaled(m) + weight_decay * p), m, parameters), (m, v)

    kernels = optax.GradientTransformation(init, update)
    return optax.partition({"kernel": kernels, "rest": rest}, lambda p: jax.tree_util.tree_map_with_path(label, p))
