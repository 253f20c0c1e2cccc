"""One piece, made in this file: the harness trains its own model."""

import jax.numpy as jnp


def warmup_cosine(peak, warmup_steps, decay_steps):
    def rate(step):
        step = jnp.minimum(step, decay_steps)
        rising = peak * (1e-5 + (1 - 1e-5) * step / max(warmup_steps, 1))
        progress = (step - warmup_steps) / (decay_steps - warmup_steps)
        falling = peak * (0.55 + 0.45 * jnp.cos(jnp.pi * progress))
        return jnp.where(step < warmup_steps, rising, falling)

    return rate


def pieces() -> dict:
    return {"warmup_cosine": warmup_cosine}


def settings() -> dict:
    return {"learning_rate": 4e-3, "warmup_steps": 20, "final_lr_fraction": 0.1}
