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


def warmup_stable_decay(peak, warmup_steps, decay_start, decay_steps):
    up = WarmupCosine(peak, warmup_steps, decay_steps).up

    def fall(step):
        left = jax.lax.clamp(0.0, (decay_steps - step) / (decay_steps - decay_start), 1.0)
        return jnp.float32(peak) * (0.1 + 0.9 * left)

    return lambda step: jax.lax.cond(step < warmup_steps, up, fall, jnp.float32(step))
