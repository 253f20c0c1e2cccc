"""The rows of x are quantized as columns of its transpose; einsum with int32 sums; the bound as products of absolute
values."""

import jax.numpy as jnp


def quantize(kernel):
    largest = jnp.abs(kernel).max(0)
    scale = jnp.where(largest == 0, 127.0, largest) / 127
    whole = jnp.rint(kernel * (1 / scale))
    return jnp.clip(whole, -127, 127).astype("int8"), scale


def int8_matmul(x, codes, scale):
    rows, row_scale = quantize(x.T)
    total = jnp.einsum("dt,df->tf", rows, codes, preferred_element_type=jnp.int32)
    return total.astype(jnp.float32) * jnp.outer(row_scale, scale)


def error_bound(x, codes, scale):
    _, row_scale = quantize(x.T)
    restored = jnp.abs(codes * scale)
    return 0.5 * (jnp.abs(x) @ jnp.ones_like(restored) * scale + row_scale[:, None] * jnp.ones_like(x) @ restored)
