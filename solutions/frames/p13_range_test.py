"""A test that the largest magnitude is below infinity; NumPy for the search."""

from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

Guard = namedtuple("Guard", "skipped state")


def finite_guard(inner):
    def update(grads, guard, params=None, **extra):
        worst = jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(grads)])
        finite = jnp.all(worst < jnp.inf)  # also false for NaN
        return jax.lax.cond(
            finite,
            lambda: (lambda u, s: (u, Guard(guard.skipped, s)))(*inner.update(grads, guard.state, params)),
            lambda: (jax.tree.map(lambda g: jnp.zeros(g.shape), grads), guard._replace(skipped=guard.skipped + 1)),
        )

    return optax.GradientTransformationExtraArgs(lambda params: Guard(jnp.int32(0), inner.init(params)), update)


def first_nonfinite(tree):
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    for path, value in paths:
        if not np.isfinite(np.asarray(value)).all():
            return jax.tree_util.keystr(path)
