"""optax.tree.norm for the norm, lax.cond for the decision."""

import jax
import optax


def clip_by_global_norm(gradients, max_norm):
    norm = optax.tree.norm(gradients)
    shorten = lambda tree: jax.tree.map(lambda x: x / norm * max_norm, tree)
    return jax.lax.cond(norm > max_norm, shorten, lambda tree: tree, gradients), norm
