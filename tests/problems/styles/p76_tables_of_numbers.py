"""The numbers of a format in a sorted table: the nearest one is found between midpoints, and the two neighbors by their
places. The blocks of a product are a Python list."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

E4M3 = np.arange(127, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
TABLES = {"e4m3": E4M3, "mxfp4": np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)}
DTYPES = {"e4m3": (jnp.float8_e4m3fn, jnp.float32), "mxfp4": (jnp.float4_e2m1fn, jnp.float8_e8m0fnu)}
POWERS = np.float32(2.0) ** np.arange(-126, 127, dtype=np.float32)


def divided(x, kind):
    cut = jnp.stack(jnp.split(x, x.shape[-1] // 32, axis=-1), axis=-2)
    top = jnp.abs(cut).max(-1)
    scale = top / TABLES[kind][-1]
    if kind == "mxfp4":
        scale = jnp.asarray(POWERS)[jnp.searchsorted(POWERS, scale)]
    scale = jnp.where(top == 0, 1.0, scale)
    return (cut / jnp.expand_dims(scale, -1)).reshape(x.shape), scale


def below(size, table):
    return jnp.clip(jnp.searchsorted(table, size, side="right") - 1, 0, len(table) - 2)


def quantize_blocks(x, kind, key=None):
    v, scale = divided(x, kind)
    table = jnp.asarray(TABLES[kind])
    size = jnp.minimum(jnp.abs(v), table[-1])
    if key is None:
        place = jnp.searchsorted((table[1:] + table[:-1]) / 2, size)
    else:
        place = below(size, table)
        chance = (size - table[place]) / (table[place + 1] - table[place])
        place = place + jax.random.bernoulli(key, chance)
    code, of_scale = DTYPES[kind]
    return (jnp.sign(v) * table[place]).astype(code), scale.astype(of_scale)


def multiplied(a, b, kind):
    (a, a_scale), (b, b_scale) = quantize_blocks(a, kind), quantize_blocks(b, kind)
    total = 0
    for block in range(a_scale.shape[1]):
        part = slice(32 * block, 32 * block + 32)
        left, right = a[:, part].astype(jnp.float8_e4m3fn), b[:, part].astype(jnp.float8_e4m3fn)
        sums = jnp.matmul(left, right.T, preferred_element_type=jnp.float32)
        total += sums * jnp.outer(a_scale[:, block].astype("float32"), b_scale[:, block].astype("float32"))
    return total


def block_matmul(x, kernel, kind):
    @jax.custom_vjp
    def multiply(x, kernel):
        return multiplied(x, kernel.T, kind)

    def back(arrays, slope):
        x, kernel = arrays
        return multiplied(slope, kernel, kind), multiplied(x.T, slope.T, kind)

    multiply.defvjp(lambda x, kernel: (multiply(x, kernel), (x, kernel)), back)
    return multiply(x, kernel)


def error_bound(x, kernel, kind):
    def halves(a):
        v, scale = divided(a, kind)
        table = jnp.asarray(TABLES[kind])
        place = below(jnp.abs(v), table)
        return (table[place + 1] - table[place]) / 2 * jnp.repeat(scale, 32, axis=-1)

    codes, scale = quantize_blocks(kernel.T, kind)
    stored = jnp.abs(codes.astype(jnp.float32)) * jnp.repeat(scale.astype(jnp.float32), 32, axis=-1)
    return jnp.einsum("td,fd->tf", jnp.abs(x), halves(kernel.T)) + jnp.einsum("td,fd->tf", halves(x), stored)
