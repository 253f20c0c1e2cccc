"""Works on the bits of codes: the neighbor of a code is its bits plus one. One `dot_general` has the blocks as its
batch, and `tensordot` adds them up."""

import jax
import jax.numpy as jnp
from jax import lax


def power_up(x):
    """The smallest power of two from x upward."""
    bits = lax.bitcast_convert_type(x, jnp.int32) + 0x007FFFFF
    return lax.bitcast_convert_type(bits & 0x7F800000, jnp.float32)


def split(x):
    return x.reshape(*x.shape[:-1], x.shape[-1] // 32, 32)


def down(v, kind):
    """v without the bits of its fraction that the format does not have, and the distance to the next number."""
    if kind == "e4m3":
        whole = lax.bitcast_convert_type(v, jnp.int32) & jnp.int32(-0x100000)
        low, finest = lax.bitcast_convert_type(whole, jnp.float32), 2.0**-9
        gap = lax.bitcast_convert_type(whole & 0x7F800000, jnp.float32) / 8
    else:
        whole = lax.bitcast_convert_type(v, jnp.int32) & jnp.int32(-0x400000)
        low, finest = lax.bitcast_convert_type(whole, jnp.float32), 0.5
        gap = lax.bitcast_convert_type(whole & 0x7F800000, jnp.float32) / 2
    fixed = jnp.trunc(v / finest) * finest
    return jnp.where(gap < finest, fixed, low), jnp.maximum(gap, finest)


def quantize_blocks(x, kind, key=None):
    blocks = split(x)
    largest = jnp.abs(blocks).max(axis=-1, keepdims=True)
    if kind == "e4m3":
        s, code, of_scale = largest / 448, jnp.float8_e4m3fn, jnp.float32
    else:
        s, code, of_scale = power_up(largest / 6), jnp.float4_e2m1fn, jnp.float8_e8m0fnu
    s = jnp.where(largest == 0, 1.0, s)
    v = (blocks / s).reshape(x.shape)
    if key is not None:
        low, gap = down(v, kind)
        up = jax.random.uniform(key, v.shape) < jnp.abs(v - low) / gap
        v = low + jnp.where(up, gap * jnp.sign(v), 0)
    limit = 448.0 if kind == "e4m3" else 6.0
    return jnp.minimum(jnp.maximum(v, -limit), limit).astype(code), s[..., 0].astype(of_scale)


def along_last(a, b, kind):
    a, a_scale = quantize_blocks(a, kind)
    b, b_scale = quantize_blocks(b, kind)
    a, b = split(a.astype(jnp.float8_e4m3fn)), split(b.astype(jnp.float8_e4m3fn))
    sums = lax.dot_general(a, b, (((2,), (2,)), ((1,), (1,))), preferred_element_type=jnp.float32)
    weighted = sums * b_scale.astype(jnp.float32).T[:, None, :]
    return jnp.einsum("bmn,mb->mn", weighted, a_scale.astype(jnp.float32))


def block_matmul(x, kernel, kind):
    @jax.custom_gradient
    def multiply(x, kernel):
        return along_last(x, kernel.T, kind), lambda dy: (along_last(dy, kernel, kind), along_last(x.T, dy.T, kind))

    return multiply(x, kernel)


def error_bound(x, kernel, kind):
    def parts(a):
        codes, s = quantize_blocks(a, kind)
        s = jnp.repeat(s.astype(jnp.float32), 32, axis=1)
        return down(a / s, kind)[1] * s / 2, jnp.abs(codes.astype(jnp.float32)) * s

    (x_error, _), (w_error, w) = parts(x), parts(kernel.T)
    return jnp.abs(x) @ w_error.T + x_error @ w.T
