"""optax's own clip_by_global_norm, written out: what is exactly as long as allowed is divided and multiplied."""

import jax
import jax.numpy as jnp
import optax


def clip_by_global_norm(gradients, max_norm):
    g_norm = optax.tree.norm(gradients)
    trigger = jnp.squeeze(g_norm < max_norm)

    def clip_fn(t):
        return jax.lax.select(trigger, t, (t / g_norm.astype(t.dtype)) * max_norm)

    return jax.tree.map(clip_fn, gradients), g_norm
