"""All leaves flattened to one vector, shortened, and unflattened."""

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree


def clip_by_global_norm(gradients, max_norm):
    flat, unravel = ravel_pytree(gradients)
    length = jnp.linalg.norm(flat)
    return unravel(jnp.where(length > max_norm, flat * (max_norm / jnp.where(length > 0, length, 1)), flat)), length
