"""Problem 10: warm-up and cosine decay. The page is in pages/p10_lr_schedule.md."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def warmup_cosine(
    peak: float, warmup_steps: int, decay_steps: int
) -> Callable[[int | Int[Array, ""]], Float[Array, ""]]:
    """A schedule: a function from the number of an update, counted from 0, to its learning rate.

    The rate rises in a straight line from 1e-5 of the peak at step 0 to the peak at step `warmup_steps`. It falls by half a
    cosine to a tenth of the peak at step `decay_steps`, and stays there.
    """
    raise NotImplementedError
