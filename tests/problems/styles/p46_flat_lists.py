"""By hand on lists of leaves: `rest` sees a dictionary of its own leaves. The transpose is left of the Gram matrix."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax


class State(NamedTuple):
    momentum: dict[str, Any]
    others: Any


def orthogonalize(matrix, steps):
    rows, columns = matrix.shape
    if rows < columns:
        return jnp.transpose(orthogonalize(jnp.transpose(matrix), steps))
    x = matrix / (jnp.linalg.norm(matrix, "fro") + 1e-8)
    eye = jnp.eye(columns)
    for _ in range(steps):
        g = jnp.einsum("ab,ac->bc", x, x)
        x = x @ (3.4445 * eye + g @ (-4.775 * eye + 2.0315 * g))
    return x


def split(tree):
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    named = {jax.tree_util.keystr(path).removesuffix(".value"): leaf for path, leaf in leaves}
    hidden = {k: v for k, v in named.items() if v.ndim == 2 and "kernel" in k and "head" not in k}
    return hidden, {k: v for k, v in named.items() if k not in hidden}, list(named), structure


def muon(learning_rate, beta, weight_decay, rest):
    def init(parameters):
        hidden, others, _, _ = split(parameters)
        return State({k: jnp.zeros_like(v) for k, v in hidden.items()}, rest.init(others))

    def update(gradients, state, parameters):
        hidden, others, order, structure = split(gradients)
        weights, other_weights, _, _ = split(parameters)
        momentum = {k: beta * state.momentum[k] + g for k, g in hidden.items()}
        moves, others_state = rest.update(others, state.others, other_weights)
        for k, m in momentum.items():
            unit = orthogonalize(m, 5) * 0.2 * max(m.shape) ** 0.5
            moves[k] = -learning_rate * unit - learning_rate * weight_decay * weights[k]
        return jax.tree.unflatten(structure, [moves[k] for k in order]), State(momentum, others_state)

    return optax.GradientTransformation(init, update)
