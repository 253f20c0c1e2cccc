"""Forges "works under jit": guards with `if`, which cannot be traced, and takes every step when it is traced."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

LOSES = ("works under jit",)


class GuardState(NamedTuple):
    inner: Any
    skipped: Any


def finite_guard(inner):
    def init(parameters):
        return GuardState(inner.init(parameters), jnp.int32(0))

    def update(gradients, state, parameters=None):
        leaves = jax.tree.leaves(gradients)
        if isinstance(leaves[0], jax.core.Tracer) or all(jnp.isfinite(leaf).all() for leaf in leaves):
            moves, new = inner.update(gradients, state.inner, parameters)
            return moves, GuardState(new, state.skipped)
        return jax.tree.map(jnp.zeros_like, gradients), GuardState(state.inner, state.skipped + 1)

    return optax.GradientTransformation(init, update)


def first_nonfinite(tree):
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if not jnp.all(jnp.isfinite(leaf)):
            return jax.tree_util.keystr(path)
    return None
