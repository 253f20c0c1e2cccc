"""As `nnx.LayerNorm(use_fast_variance=False)` computes it: the scale is multiplied into the reciprocal root."""

import jax
import jax.numpy as jnp


def layer_norm(x, scale, bias, epsilon):
    mean = x.mean(axis=-1)
    variance = jnp.mean(jnp.square(jnp.abs(x - jnp.expand_dims(mean, -1))), axis=-1)
    y = x - jnp.expand_dims(mean, -1)
    multiplier = jnp.expand_dims(jax.lax.rsqrt(variance + epsilon), -1) * scale
    return y * multiplier + bias
