"""Plain Python, pair by pair, for the frequencies: lists and an `if`. Complex numbers for the rotation."""

from math import ceil, floor, log, pi

import jax
import jax.numpy as jnp
import numpy as np


def yarn(K, base, factor, original, truncate=True):
    def pair_with(turns):
        wavelength = original / turns
        return K / 2 * log(wavelength / (2 * pi), base)

    first, last = pair_with(32), pair_with(1)
    if truncate:
        first, last = floor(first), ceil(last)
    if first < 0:
        first = 0
    found = []
    for i in range(K // 2):
        theta = 1 / base ** (2 * i / K)
        if i <= first:
            found.append(theta)
        elif i >= last:
            found.append(theta / factor)
        else:
            part = (i - first) / (last - first)
            found.append(theta * (1 - part * (1 - 1 / factor)))
    return np.array(found, np.float32), 1 + log(factor) / 10


def rotate(x, positions, frequencies, scale=1.0):
    t, h, k = x.shape
    wide = x.astype(jnp.float32).reshape(t, h, 2, k // 2)
    z = jax.lax.complex(wide[:, :, 0], wide[:, :, 1])
    z = z * (scale * jnp.exp(1j * jnp.outer(positions, frequencies)))[:, None]
    return jnp.concatenate([z.real, z.imag], axis=-1).astype(x.dtype)
