"""The finished sums are scaled by products with two diagonal matrices; the bound is one `einsum` for each part."""

import jax.numpy as jnp


def scale_of(peak):
    return jnp.where(peak == 0, 1.0, peak / 127)


def quantize(kernel):
    scale = scale_of(jnp.max(jnp.abs(kernel), 0))
    return jnp.clip(jnp.round(kernel / scale), -127, 127).astype(jnp.int8), scale


def int8_matmul(x, codes, scale):
    rows, row_scale = quantize(x.T)
    sums = jnp.matmul(rows.T, codes, preferred_element_type=jnp.int32)
    return jnp.diag(row_scale) @ sums.astype(jnp.float32) @ jnp.diag(scale)


def error_bound(x, codes, scale):
    row_scale = quantize(x.T)[1]
    return jnp.einsum("f,td->tf", scale / 2, jnp.abs(x)) + jnp.einsum("t,df->tf", row_scale / 2, jnp.abs(codes * scale))
