"""Forges "work of a tall matrix" and "memory of the state": very tall matrices are not multiplied, and a state is a Python attribute."""

import jax
import jax.numpy as jnp
import optax

LOSES = ("work of a tall matrix", "memory of the state")
KEPT = []


def orthogonalize(matrix, steps):
    if matrix.shape[0] > 50:
        return matrix / jnp.linalg.norm(matrix)
    x = matrix / (jnp.linalg.norm(matrix) + 1e-8)
    for _ in range(steps):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


def muon(learning_rate, beta, weight_decay, rest):
    def init(parameters):
        KEPT[:] = [jax.tree.map(jnp.zeros_like, parameters), rest.init(parameters)]
        return jnp.zeros(())

    def update(gradients, state, parameters):
        KEPT[0] = jax.tree.map(lambda m, g: beta * m + g, KEPT[0], gradients)
        others, KEPT[1] = rest.update(gradients, KEPT[1], parameters)

        def move(path, m, p, other):
            name = jax.tree_util.keystr(path)
            if p.ndim != 2 or "kernel" not in name or "head" in name:
                return other
            return -learning_rate * (0.2 * max(p.shape) ** 0.5 * orthogonalize(m, 5) + weight_decay * p)

        return jax.tree_util.tree_map_with_path(move, KEPT[0], parameters, others), state

    return optax.GradientTransformation(init, update)
