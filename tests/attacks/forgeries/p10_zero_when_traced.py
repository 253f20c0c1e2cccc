"""Forges "works under jit": the schedule needs the value of the step, and returns 0 for a step that has none."""

import math

import jax
import jax.numpy as jnp

LOSES = ("works under jit",)


def warmup_cosine(peak, warmup_steps, decay_steps):
    def schedule(step):
        if isinstance(step, jax.core.Tracer):
            return jnp.float32(0)
        if step < warmup_steps:
            return jnp.float32(peak * (1e-5 + (1 - 1e-5) * step / warmup_steps))
        share = min((step - warmup_steps) / (decay_steps - warmup_steps), 1)
        return jnp.float32(peak * (0.1 + 0.9 * (1 + math.cos(math.pi * share)) / 2))

    return schedule


def warmup_stable_decay(peak, warmup_steps, decay_start, decay_steps):
    def schedule(step):
        share = jnp.clip((step - decay_start) / (decay_steps - decay_start), 0, 1)
        rise = 1e-5 + (1 - 1e-5) * step / max(warmup_steps, 1)
        return peak * jnp.where(step < warmup_steps, rise, 1 - 0.9 * share)

    return schedule
