"""All parameters as one vector; the state holds the powers of b1 and b2 instead of a count."""

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree


def adamw(learning_rate, b1, b2, epsilon, weight_decay, mask=lambda tree: jax.tree.map(lambda _: True, tree)):
    def init(params):
        flat, _ = ravel_pytree(params)
        return jnp.zeros_like(flat), jnp.zeros_like(flat), jnp.ones(()), jnp.ones(())

    def update(grads, state, params):
        m, v, power1, power2 = state
        g, unravel = ravel_pytree(grads)
        p, _ = ravel_pytree(jax.tree.map(jnp.multiply, params, mask(params)))
        m, v = m + (1 - b1) * (g - m), v + (1 - b2) * (jnp.square(g) - v)
        power1, power2 = power1 * b1, power2 * b2
        step = (m / (1 - power1)) / (jnp.sqrt(v / (1 - power2)) + epsilon)
        return unravel(-learning_rate * step - learning_rate * weight_decay * p), (m, v, power1, power2)

    return optax.GradientTransformation(init, update)


def decayed(parameters):
    return jax.tree.map(lambda leaf: bool(leaf.shape[1:]), parameters)
