"""Quantizes along any axis, with exponents from `frexp`, and adds up the blocks in a scan. Noise before a rounding to
nearest makes it random."""

from functools import partial

import jax
import jax.numpy as jnp

LARGEST = {"e4m3": 448, "mxfp4": 6}


def exponents(x):
    """The exponent of each number as a float: x is from 2**e up to 2**(e + 1)."""
    return jnp.frexp(x)[1] - 1


def step_of(v, kind):
    return 2.0 ** (jnp.maximum(exponents(v) - 3, -9) if kind == "e4m3" else jnp.maximum(exponents(v) - 1, -1))


def scaled(x, kind, axis):
    """Blocks of x along an axis, which becomes two, and their scales with an axis of length 1."""
    shape = (*x.shape[:axis], x.shape[axis] // 32, 32, *x.shape[axis + 1 :])
    x = x.reshape(shape)
    s = jnp.abs(x).max(axis + 1, keepdims=True) / LARGEST[kind]
    if kind == "mxfp4":
        fraction, exponent = jnp.frexp(s)
        s = jnp.ldexp(1.0, exponent - (fraction == 0.5))
    s = jnp.where(x.any(axis + 1, keepdims=True), s, 1)
    return x / s, s


def coded(x, kind, axis, noise=None):
    v, s = scaled(x, kind, axis)
    if noise is not None:
        step = step_of(v, kind)
        v = jnp.round(v / step + noise.reshape(v.shape) - 0.5) * step
    return jnp.clip(v, -LARGEST[kind], LARGEST[kind]), s


def quantize_blocks(x, kind, key=None):
    noise = None if key is None else jax.random.uniform(key, x.shape)
    v, s = coded(x, kind, x.ndim - 1, noise)
    s = s[..., 0]
    if kind == "mxfp4":
        return v.astype(jnp.float4_e2m1fn).reshape(x.shape), s.astype(jnp.float8_e8m0fnu)
    return v.astype(jnp.float8_e4m3fn).reshape(x.shape), s


def contracted(a, b, kind):
    """a (M, K) times b (K, N)."""
    (a_MBk, a_scale), (b_BkN, b_scale) = coded(a, kind, 1), coded(b, kind, 0)
    eight = jnp.float8_e4m3fn
    if kind == "mxfp4":
        a_MBk, b_BkN = a_MBk.astype(jnp.float4_e2m1fn), b_BkN.astype(jnp.float4_e2m1fn)

    def add(total, block):
        a, a_scale, b, b_scale = block
        return total + jnp.dot(a, b, preferred_element_type=jnp.float32) * a_scale * b_scale, None

    blocks = (a_MBk.astype(eight).swapaxes(0, 1), a_scale.swapaxes(0, 1), b_BkN.astype(eight), b_scale)
    return jax.lax.scan(add, jnp.zeros((len(a), b.shape[1])), blocks)[0]


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def block_matmul(x, kernel, kind):
    return contracted(x, kernel, kind)


block_matmul.defvjp(
    lambda x, kernel, kind: (contracted(x, kernel, kind), (x, kernel)),
    lambda kind, saved, dy: (contracted(dy, saved[1].T, kind), contracted(saved[0].T, dy, kind)),
)


def error_bound(x, kernel, kind):
    v, s = scaled(x, kind, 1)
    w, z = scaled(kernel, kind, 0)
    codes, _ = coded(kernel, kind, 0)
    codes = codes.astype(jnp.float8_e4m3fn if kind == "e4m3" else jnp.float4_e2m1fn).astype(jnp.float32)
    of_x = jnp.einsum("tbk,bkf->tf", step_of(v, kind) * s / 2, jnp.abs(codes) * z)
    return of_x + jnp.einsum("tbk,bkf->tf", jnp.abs(v) * s, step_of(w, kind) * z / 2)
