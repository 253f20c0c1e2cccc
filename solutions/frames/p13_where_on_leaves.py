"""jnp.where on every leaf of the result, a dictionary as the state, a generator for the search."""

import jax
import jax.numpy as jnp
import optax


def finite_guard(inner):
    def init(params):
        return {"inner": inner.init(params), "skipped": jnp.array(0)}

    def update(grads, state, params=None):
        ok = jax.tree.reduce(jnp.logical_and, jax.tree.map(lambda g: jnp.isfinite(g).all(), grads))
        updates, new = inner.update(grads, state["inner"], params)
        updates = jax.tree.map(lambda u: jnp.where(ok, u, jnp.zeros_like(u)), updates)
        kept = jax.tree.map(lambda a, b: jnp.where(ok, a, b), new, state["inner"])
        return updates, {"inner": kept, "skipped": state["skipped"] + (~ok).astype(jnp.int32)}

    return optax.GradientTransformation(init, update)


def first_nonfinite(tree):
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return next((jax.tree_util.keystr(path) for path, x in leaves if not bool(jnp.isfinite(x).all())), None)
