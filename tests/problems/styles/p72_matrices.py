"""`jnp.interp` for the ramp, from the logarithms of the turns. A matrix of 2 x 2 numbers for each position and pair."""

import jax.numpy as jnp
import numpy as np


def yarn(K, base, factor, original, truncate=True):
    i = np.arange(K // 2, dtype=np.float64)
    theta = np.exp(-2 * i / K * np.log(base))
    log_turns = np.log([original / 32 / 2 / np.pi, original / 2 / np.pi])
    ends = log_turns / np.log(base) * K / 2
    if truncate:
        ends = [np.floor(ends[0]), np.ceil(ends[1])]
    ramp = np.interp(i, [np.maximum(ends[0], 0), ends[1]], [0, 1])
    return jnp.array(theta / factor * ramp + theta * (1 - ramp), "float32"), float(np.log(factor) / 10 + 1)


def rotate(x, positions, frequencies, scale=1.0):
    T, H, K = x.shape
    angle = jnp.einsum("t,p->tp", positions.astype("float32"), frequencies)
    c, s = jnp.cos(angle), jnp.sin(angle)
    turn = scale * jnp.array([[c, -s], [s, c]])
    pairs = x.reshape(T, H, 2, K // 2).astype("float32")
    return jnp.einsum("abtp,thbp->thap", turn, pairs).reshape(T, H, K).astype(x.dtype)
