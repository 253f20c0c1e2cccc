"""One product with the matrix of all weights."""

import jax.numpy as jnp
import numpy as np


def exponential_average(x, decay):
    age = np.subtract.outer(np.arange(len(x)), np.arange(len(x)))
    weights = np.where(age >= 0, (1 - decay) * decay ** np.maximum(age, 0), 0.0)
    weights[:, 0] = decay ** np.arange(len(x))
    return jnp.asarray(weights, x.dtype) @ x
