"""One 2 x 2 rotation matrix for each pair and position, and one pair in a loop after the other; frequencies by exp and
log."""

import math

import jax
import jax.numpy as jnp


def rope(x, positions, base=10000.0, pairing="halves"):
    P = x.shape[-1] // 2
    pairs = [(i, i + P) if pairing == "halves" else (2 * i, 2 * i + 1) for i in range(P)]

    def one(row, position):  # (H, K)
        for i, pair in enumerate(pairs):
            angle = position * math.exp(-math.log(base) * i / P)
            matrix = jnp.array([[jnp.cos(angle), -jnp.sin(angle)], [jnp.sin(angle), jnp.cos(angle)]])
            row = row.at[:, jnp.array(pair)].set(row[:, jnp.array(pair)] @ matrix.T)
        return row

    return jax.vmap(one)(x.astype(jnp.float32), positions).astype(x.dtype)
