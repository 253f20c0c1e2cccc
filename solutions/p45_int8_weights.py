"""Problem 45, reference: weights in int8."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8

LARGEST = 127  # -128 is not used, so that the codes are symmetric


def quantized(x: Float[Array, "A B"], axis: int) -> tuple[Int8[Array, "A B"], Float[Array, "..."]]:
    """The codes of an array, and their scales. All numbers along `axis` share a scale, and that axis has the length
    1."""
    peak = jnp.max(jnp.abs(x), axis=axis, keepdims=True)
    scale = jnp.where(peak > 0, peak / LARGEST, 1.0)
    return jnp.round(x / scale).astype(jnp.int8), scale


def quantize(kernel: Float[Array, "D F"]) -> tuple[Int8[Array, "D F"], Float[Array, "F"]]:
    """Symmetric quantization with a scale for each output channel (Krishnamoorthi 2018, section 3.1)."""
    codes_DF, scale_1F = quantized(kernel, axis=0)
    return codes_DF, scale_1F[0]


def int8_matmul(x: Float[Array, "T D"], codes: Int8[Array, "D F"], scale: Float[Array, "F"]) -> Float[Array, "T F"]:
    """An integer product of codes, times the scale of the row and that of the column (Dettmers et al. 2022, section
    2.1)."""
    codes_TD, scale_T1 = quantized(x, axis=1)
    sums_TF = jax.lax.dot(codes_TD, codes, preferred_element_type=jnp.int32)
    return sums_TF * scale_T1 * scale


def error_bound(x: Float[Array, "T D"], codes: Int8[Array, "D F"], scale: Float[Array, "F"]) -> Float[Array, "T F"]:
    """The sum of both worst cases: all errors of the kernel add up, and all errors of x do."""
    _, scale_T1 = quantized(x, axis=1)
    from_kernel_TF = jnp.sum(jnp.abs(x), axis=1, keepdims=True) * scale / 2
    from_x_TF = scale_T1 / 2 * scale * jnp.sum(jnp.abs(codes.astype(jnp.float32)), axis=0)
    return from_kernel_TF + from_x_TF
