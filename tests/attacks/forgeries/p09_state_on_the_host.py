"""Forges "compiled once": the state of the optimizer is empty, and a callback keeps count and moments in Python."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental import io_callback

LOSES = ("compiled once",)


def adamw(learning_rate, b1, b2, epsilon, weight_decay):
    memory = {}

    def init(parameters):
        memory.clear()
        return ()

    def on_the_host(*leaves):
        gradients, parameters = leaves[: len(leaves) // 2], leaves[len(leaves) // 2 :]
        count = memory["count"] = memory.get("count", 0) + 1
        moves = []
        for i, (g, p) in enumerate(zip(gradients, parameters, strict=True)):
            m, s = memory.get(i, (0.0, 0.0))
            memory[i] = m, s = b1 * m + (1 - b1) * np.asarray(g), b2 * s + (1 - b2) * np.asarray(g) ** 2
            m, s = m / (1 - b1**count), s / (1 - b2**count)
            moves.append(-learning_rate * (m / (np.sqrt(s) + epsilon) + weight_decay * np.asarray(p)))
        return tuple(np.asarray(move, np.float32) for move in moves)

    def update(gradients, state, parameters):
        leaves, tree = jax.tree.flatten(gradients)
        like = tuple(jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.float32) for leaf in leaves)
        moves = io_callback(on_the_host, like, *leaves, *jax.tree.leaves(parameters), ordered=True)
        return jax.tree.unflatten(tree, moves), ()

    return optax.GradientTransformation(init, update)
