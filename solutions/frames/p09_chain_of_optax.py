"""A chain of optax transformations; the first one holds the count and both means."""

import jax
import jax.numpy as jnp
import optax


def adamw(learning_rate, b1, b2, epsilon, weight_decay, mask=None):
    def init(params):
        zeros = optax.tree_utils.tree_zeros_like(params)
        return {"t": jnp.array(0), "m": zeros, "v": zeros}

    def update(grads, state, params=None):
        del params
        t = optax.safe_increment(state["t"])
        m = optax.tree_utils.tree_update_moment(grads, state["m"], b1, 1)
        v = optax.tree_utils.tree_update_moment_per_elem_norm(grads, state["v"], b2, 2)
        m_hat = optax.tree_utils.tree_bias_correction(m, b1, t)
        v_hat = optax.tree_utils.tree_bias_correction(v, b2, t)
        out = jax.tree.map(lambda a, b: a / (jnp.sqrt(b) + epsilon), m_hat, v_hat)
        return out, {"t": t, "m": m, "v": v}

    return optax.chain(
        optax.GradientTransformation(init, update),
        optax.add_decayed_weights(weight_decay, mask),
        optax.scale_by_learning_rate(learning_rate),
    )


def decayed(parameters):
    leaves, structure = jax.tree.flatten(parameters)
    return jax.tree.unflatten(structure, [len(jnp.shape(leaf)) > 1 for leaf in leaves])
