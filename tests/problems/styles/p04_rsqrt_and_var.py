"""Uses `var` and `rsqrt`."""

import jax


def layer_norm(x, scale, bias, epsilon):
    normed = (x - x.mean(-1)[:, None]) * jax.lax.rsqrt(x.var(-1) + epsilon)[:, None]
    return bias + scale * normed
