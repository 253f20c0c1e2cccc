"""Forges "works under jit": a callback looks at the gradients in Python, which needs their values."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

LOSES = ("works under jit",)


class GuardState(NamedTuple):
    inner: Any
    skipped: Any


def finite_guard(inner):
    def init(parameters):
        return GuardState(inner.init(parameters), jnp.int32(0))

    def update(gradients, state, parameters=None):
        def is_finite(*leaves):
            if all(np.isfinite(leaf).all() for leaf in leaves):
                return np.bool_(True)
            return np.bool_(False)

        finite = jax.pure_callback(is_finite, jax.ShapeDtypeStruct((), bool), *jax.tree.leaves(gradients))
        moves, new = inner.update(gradients, state.inner, parameters)
        moves = jax.tree.map(lambda move: jnp.where(finite, move, 0), moves)
        kept = jax.tree.map(lambda new, old: jnp.where(finite, new, old), new, state.inner)
        return moves, GuardState(kept, state.skipped + 1 - finite)

    return optax.GradientTransformation(init, update)


def first_nonfinite(tree):
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if not jnp.all(jnp.isfinite(leaf)):
            return jax.tree_util.keystr(path)
    return None
