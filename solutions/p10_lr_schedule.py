"""Problem 10, reference: warm-up and cosine decay."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

START, FLOOR = 1e-5, 0.1  # shares of the peak


def warmup_cosine(
    peak: float, warmup_steps: int, decay_steps: int
) -> Callable[[int | Int[Array, ""]], Float[Array, ""]]:
    """A schedule: a linear warm-up, then half a cosine (Loshchilov and Hutter 2017) down to a tenth of the peak."""

    def schedule(step: int | Int[Array, ""]) -> Float[Array, ""]:
        up = START + (1 - START) * step / max(warmup_steps, 1)
        share = jnp.clip((step - warmup_steps) / (decay_steps - warmup_steps), 0, 1)
        weight = (1 + jnp.cos(jnp.pi * share)) / 2
        down = FLOOR + (1 - FLOOR) * weight
        return peak * jnp.where(step < warmup_steps, up, down)

    return schedule
