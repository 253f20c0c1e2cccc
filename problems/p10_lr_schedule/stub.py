"""Problem 10: warm-up and cosine decay. The page is in pages/p10_lr_schedule.md."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def warmup_cosine(
    peak: float, warmup_steps: int, decay_steps: int
) -> Callable[[int | Int[Array, ""]], Float[Array, ""]]:
    """A schedule: the learning rate of update number `step`, from 0.

    From 1e-5 of the peak in a straight line to the peak at `warmup_steps`, by half a cosine to a tenth of it at
    `decay_steps`, and constant from there.
    """
    raise NotImplementedError
