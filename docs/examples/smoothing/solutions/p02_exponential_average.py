"""Problem 02, reference: exponential average."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def exponential_average(x: Float[Array, "T D"], decay: float) -> Float[Array, "T D"]:
    """A scan over the rows whose carry is the average so far."""

    def step(memory: Float[Array, " D"], row: Float[Array, " D"]) -> tuple[Float[Array, " D"], Float[Array, " D"]]:
        average = decay * memory + (1 - decay) * row
        return average, average

    _, averages = jax.lax.scan(step, x[0], x[1:])
    return jnp.concatenate([x[:1], averages])
