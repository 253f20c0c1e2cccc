"""Problem 10, reference: warm-up, then a cosine, or a constant and a line."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

START, FLOOR = 1e-5, 0.1  # shares of the peak

Schedule = Callable[[int | Int[Array, ""]], Float[Array, ""]]


def rise(step: int | Int[Array, ""], warmup_steps: int) -> Float[Array, ""] | float:
    """The share of the peak during the warm-up."""
    return START + (1 - START) * step / max(warmup_steps, 1)


def warmup_cosine(peak: float, warmup_steps: int, decay_steps: int) -> Schedule:
    """A linear warm-up, then half a cosine (Loshchilov and Hutter 2017) down to a tenth of the peak."""

    def schedule(step: int | Int[Array, ""]) -> Float[Array, ""]:
        up = rise(step, warmup_steps)
        share = jnp.clip((step - warmup_steps) / (decay_steps - warmup_steps), 0, 1)
        weight = (1 + jnp.cos(jnp.pi * share)) / 2
        down = FLOOR + (1 - FLOOR) * weight
        return peak * jnp.where(step < warmup_steps, up, down)

    return schedule


def warmup_stable_decay(peak: float, warmup_steps: int, decay_start: int, decay_steps: int) -> Schedule:
    """A linear warm-up, the peak until `decay_start` (Hu et al. 2024), then a line down to a tenth of the peak."""

    def schedule(step: int | Int[Array, ""]) -> Float[Array, ""]:
        done = jnp.clip((step - decay_start) / (decay_steps - decay_start), 0, 1)
        fall = FLOOR + (1 - FLOOR) * (1 - done)
        return peak * jnp.where(step < warmup_steps, rise(step, warmup_steps), fall)

    return schedule
