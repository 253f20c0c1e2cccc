"""jnp.interp for the warm-up, the half-angle formula for the cosine, jnp.select between them."""

import jax.numpy as jnp


def warmup_cosine(peak, warmup_steps, decay_steps):
    floor = peak / 10

    def schedule(step):
        step = jnp.asarray(step, jnp.float32)
        rise = jnp.interp(step, jnp.array([0.0, float(warmup_steps)]), jnp.array([peak * 1e-5, peak]))
        angle = jnp.pi * (step - warmup_steps) / (decay_steps - warmup_steps)
        fall = floor + (peak - floor) * jnp.cos(angle / 2) ** 2
        return jnp.select([step < warmup_steps, step >= decay_steps], [rise, floor], fall)

    return schedule


def warmup_stable_decay(peak, warmup_steps, decay_start, decay_steps):
    steps, rates = jnp.array([0.0, decay_start, decay_steps]), jnp.array([peak, peak, peak / 10])
    if warmup_steps:
        steps = jnp.array([0.0, warmup_steps, decay_start, decay_steps])
        rates = jnp.array([peak * 1e-5, peak, peak, peak / 10])
    return lambda step: jnp.interp(jnp.asarray(step, jnp.float32), steps, rates)
