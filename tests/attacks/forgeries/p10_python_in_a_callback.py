"""Forges "works under jit": the schedule needs the value of the step, and a callback runs it in Python."""

import math

import jax
import jax.numpy as jnp
import numpy as np

LOSES = ("works under jit",)


def warmup_cosine(peak, warmup_steps, decay_steps):
    def rate(step):
        if step < warmup_steps:
            return np.float32(peak * (1e-5 + (1 - 1e-5) * step / warmup_steps))
        share = min((step - warmup_steps) / (decay_steps - warmup_steps), 1)
        return np.float32(peak * (0.1 + 0.9 * (1 + math.cos(math.pi * share)) / 2))

    def schedule(step):
        like = jax.ShapeDtypeStruct((), np.float32)
        return jax.pure_callback(lambda step: rate(int(step)), like, step, vmap_method="sequential")

    return schedule


def warmup_stable_decay(peak, warmup_steps, decay_start, decay_steps):
    def schedule(step):
        share = jnp.clip((step - decay_start) / (decay_steps - decay_start), 0, 1)
        rise = 1e-5 + (1 - 1e-5) * step / max(warmup_steps, 1)
        return peak * jnp.where(step < warmup_steps, rise, 1 - 0.9 * share)

    return schedule
