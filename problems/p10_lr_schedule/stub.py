"""Problem 10: two learning-rate schedules. The page is in pages/p10_lr_schedule.md."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

# A function from the number of an update, counted from 0, to its learning rate
Schedule = Callable[[int | Int[Array, ""]], Float[Array, ""]]


def warmup_cosine(peak: float, warmup_steps: int, decay_steps: int) -> Schedule:
    """Warm-up, then a cosine.

    The rate rises in a straight line from 1e-5 of the peak at step 0 to the peak at step `warmup_steps`. It falls by
    half a cosine to a tenth of the peak at step `decay_steps`, and stays there.
    """
    raise NotImplementedError


def warmup_stable_decay(peak: float, warmup_steps: int, decay_start: int, decay_steps: int) -> Schedule:
    """Warm-up, stable, decay.

    The same warm-up. The rate stays at the peak until step `decay_start`. It falls in a straight line to a tenth of the
    peak at step `decay_steps`, and stays there.
    """
    raise NotImplementedError
