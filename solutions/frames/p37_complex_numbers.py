"""Pairs as complex numbers, as in Meta's code for Llama."""

import jax
import jax.numpy as jnp


def rope(x, positions, base=10000.0, pairing="halves"):
    t, h, k = x.shape
    x32 = x.astype(jnp.float32)
    pairs = x32.reshape(t, h, 2, k // 2) if pairing == "halves" else jnp.swapaxes(x32.reshape(t, h, k // 2, 2), 2, 3)
    z = jax.lax.complex(pairs[:, :, 0], pairs[:, :, 1])
    theta = jnp.outer(positions, 1.0 / (base ** (2 * jnp.arange(k // 2) / k)))
    z = z * jnp.exp(1j * theta)[:, None]
    out = jnp.stack([z.real, z.imag], axis=2 if pairing == "halves" else 3)
    return out.reshape(t, h, k).astype(x.dtype)
