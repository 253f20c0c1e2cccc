"""A class with `__call__` that joins two schedules by lax.cond."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class WarmupCosine:
    peak: float
    warmup_steps: int
    decay_steps: int

    def up(self, step):
        low = 1e-5 * self.peak
        return low + (self.peak - low) * step / max(1, self.warmup_steps)

    def down(self, step):
        done = jnp.minimum(step - self.warmup_steps, self.decay_steps - self.warmup_steps)
        cosine = jnp.cos(done * (math.pi / (self.decay_steps - self.warmup_steps)))
        return self.peak * (0.55 + 0.45 * cosine)

    def __call__(self, step):
        return jax.lax.cond(step < self.warmup_steps, self.up, self.down, jnp.float32(step))


def warmup_cosine(peak, warmup_steps, decay_steps):
    return WarmupCosine(peak, warmup_steps, decay_steps)
