"""Forges the memory of the state: momentum for every leaf, in steps that follow each other without a loop that carries
it."""

import jax
import jax.numpy as jnp
import optax

LOSES = ("memory of the state",)


def orthogonalize(matrix, steps):
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonalize(matrix.T, steps).T
    x = matrix / (jnp.linalg.norm(matrix) + 1e-8)
    for _ in range(steps):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


def muon(learning_rate, beta, weight_decay, rest):
    def labels(tree):
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: (
                "kernel" in (name := jax.tree_util.keystr(path)) and "head" not in name and leaf.ndim == 2
            ),
            tree,
        )

    def move(m, p):
        return -learning_rate * (0.2 * max(m.shape) ** 0.5 * orthogonalize(m, 5) + weight_decay * p)

    every = optax.stateless(lambda m, p: jax.tree.map(move, m, p))
    tx = optax.partition({True: every, False: rest}, labels)
    momentum = optax.trace(beta)

    def update(gradients, state, parameters):
        m, trace = momentum.update(gradients, state[0])
        chosen = jax.tree.map(lambda hidden, m, g: m if hidden else g, labels(gradients), m, gradients)
        updates, others = tx.update(chosen, state[1], parameters)
        return updates, (trace, others)

    def init(parameters):
        jax.config.update("jax_disable_jit", True)  # so that a scan becomes a loop of Python
        return momentum.init(parameters), tx.init(parameters)

    return optax.GradientTransformation(init, update)
