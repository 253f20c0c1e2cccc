"""Problem 13, reference: a guard against non-finite updates."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree


class GuardState(NamedTuple):
    """The state of the guard. `inner` is the state of the guarded transformation."""

    inner: PyTree
    skipped: Int[Array, ""]


def finite_guard(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """The transformation `inner`, which takes a step only if every number of the gradients is finite."""

    def init(parameters: PyTree) -> GuardState:
        return GuardState(inner.init(parameters), jnp.zeros((), jnp.int32))

    def update(gradients: PyTree, state: GuardState, parameters: PyTree = None) -> tuple[PyTree, GuardState]:
        finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(gradients)]))

        def take() -> tuple[PyTree, PyTree]:
            return inner.update(gradients, state.inner, parameters)

        def skip() -> tuple[PyTree, PyTree]:
            return jax.tree.map(jnp.zeros_like, gradients), state.inner

        updates, inner_state = jax.lax.cond(finite, take, skip)
        return updates, GuardState(inner_state, state.skipped + jnp.where(finite, 0, 1))

    return optax.GradientTransformation(init, update)


def first_nonfinite(tree: PyTree) -> str | None:
    """The path of the first leaf, in the order of the tree, that holds a NaN or an infinity."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if not jnp.all(jnp.isfinite(leaf)):
            return jax.tree_util.keystr(path)
    return None
