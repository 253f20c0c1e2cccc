"""As in the code of Hugging Face: cos and sin of full width, `rotate_half`, products in the dtype of x."""

import jax.numpy as jnp


def rotate_half(x):
    x1, x2 = jnp.split(x, 2, axis=-1)
    return jnp.concatenate((-x2, x1), axis=-1)


def rotate_every_two(x):
    return jnp.stack((-x[..., 1::2], x[..., ::2]), axis=-1).reshape(x.shape)


def rope(x, positions, base=10000.0, pairing="halves"):
    dim = x.shape[-1]
    inv_freq = 1.0 / base ** (jnp.arange(0, dim, 2).astype(jnp.float32) / dim)
    freqs = jnp.einsum("t,f->tf", positions.astype(jnp.float32), inv_freq)
    emb = jnp.concatenate((freqs, freqs), axis=-1) if pairing == "halves" else jnp.repeat(freqs, 2, axis=-1)
    cos, sin = jnp.cos(emb)[:, None].astype(x.dtype), jnp.sin(emb)[:, None].astype(x.dtype)
    return x * cos + (rotate_half(x) if pairing == "halves" else rotate_every_two(x)) * sin
