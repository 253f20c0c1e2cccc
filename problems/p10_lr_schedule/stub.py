"""Problem 10: two learning-rate schedules. The page is in pages/p10_lr_schedule.md."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

# A function from the number of an update, counted from 0, to its learning rate
Schedule = Callable[[int | Int[Array, ""]], Float[Array, ""]]


def warmup_cosine(peak: float, warmup_steps: int, decay_steps: int) -> Schedule:
    """Warm-up, then half a cosine: the first curve of the page."""
    raise NotImplementedError


def warmup_stable_decay(
    peak: float,
    warmup_steps: int,
    decay_start: int,
    decay_steps: int,
) -> Schedule:
    """Warm-up, stable, decay: the second curve of the page."""
    raise NotImplementedError
