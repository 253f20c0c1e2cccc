"""optax's own schedules, written out: polynomial_schedule, cosine_decay_schedule and join_schedules."""

import jax.numpy as jnp


def polynomial(init, end, steps):
    def schedule(count):
        count = jnp.clip(count, 0, steps)
        return (init - end) * (1 - count / steps) + end

    return schedule


def cosine(init, steps, alpha):
    def schedule(count):
        count = jnp.minimum(count, steps)
        return init * ((1 - alpha) * 0.5 * (1 + jnp.cos(jnp.pi * count / steps)) + alpha)

    return schedule


def join(schedules, boundaries):
    def schedule(step):
        output = schedules[0](step)
        for boundary, after in zip(boundaries, schedules[1:], strict=True):
            output = jnp.where(step < boundary, output, after(step - boundary))
        return output

    return schedule


def warmup(peak, steps):
    return polynomial(peak * 1e-5, peak, steps) if steps else lambda count: peak


def warmup_cosine(peak, warmup_steps, decay_steps):
    return join([warmup(peak, warmup_steps), cosine(peak, decay_steps - warmup_steps, 0.1)], [warmup_steps])


def warmup_stable_decay(peak, warmup_steps, decay_start, decay_steps):
    fall = polynomial(peak, peak / 10, decay_steps - decay_start)
    return join([warmup(peak, warmup_steps), lambda count: peak, fall], [warmup_steps, decay_start])
