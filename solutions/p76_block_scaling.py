"""Problem 76, reference: block scaling."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

BLOCK = 32


class Format(NamedTuple):
    """A small float: the dtypes of codes and scales, the largest number, the bits of a fraction, the finest step."""

    dtype: Any
    scale_dtype: Any
    largest: float
    bits: int
    finest: float


FORMATS = {
    "e4m3": Format(jnp.float8_e4m3fn, jnp.float32, 448.0, 3, 2.0**-9),
    "mxfp4": Format(jnp.float4_e2m1fn, jnp.float8_e8m0fnu, 6.0, 1, 0.5),
}


def power_of_two(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """The largest power of two up to |x|, exactly: the exponent of a float32 is in its bits 23 to 30."""
    return (x.view(jnp.int32) & 0x7F800000).view(jnp.float32)


def in_blocks(x: Float[Array, "... D"], kind: str) -> tuple[Float[Array, "... B 32"], Float[Array, "... B"]]:
    """The numbers divided by the scale of their block, and the scales in float32."""
    blocks = x.reshape(*x.shape[:-1], -1, BLOCK)
    peak = jnp.max(jnp.abs(blocks), axis=-1)
    scales = jnp.where(peak > 0, peak / FORMATS[kind].largest, 1.0)
    if kind == "mxfp4":
        lower = power_of_two(scales)
        scales = jnp.where(lower < scales, 2 * lower, lower)
    return blocks / scales[..., None], scales


def spacing(scaled: Float[Array, "..."], kind: str) -> Float[Array, "..."]:
    """The distance between the two numbers of the format around each number."""
    form = FORMATS[kind]
    return jnp.maximum(power_of_two(scaled) * 2.0**-form.bits, form.finest)


def quantize_blocks(
    x: Float[Array, "... D"], kind: str, key: Key[Array, ""] | None = None
) -> tuple[Float[Array, "... D"], Float[Array, "... B"]]:
    """Codes with a scale for 32 numbers (OCP MX v1.0), which is rounded up (Mishra et al. 2025)."""
    scaled, scales = in_blocks(x, kind)
    form, step = FORMATS[kind], spacing(scaled, kind)
    steps = scaled / step
    # The cast alone can round twice: XLA for CPUs may turn float32 into bfloat16 first.
    steps = jnp.round(steps) if key is None else jnp.floor(steps + jax.random.uniform(key, steps.shape))
    # 448.00003 could be rounded up to 480, which e4m3 does not have.
    codes = jnp.clip(step * steps, -form.largest, form.largest).astype(form.dtype)
    return codes.reshape(x.shape), scales.astype(form.scale_dtype)


def product(a: Float[Array, "M K"], b: Float[Array, "N K"], kind: str) -> Float[Array, "M N"]:
    """a bᵀ. The sum runs over the last axis of both, and so do the blocks."""
    (a_codes, a_scales), (b_codes, b_scales) = quantize_blocks(a, kind), quantize_blocks(b, kind)
    # XLA for CPUs cannot multiply e2m1, but all its numbers are numbers of e4m3.
    a_MBk = a_codes.astype(jnp.float8_e4m3fn).reshape(len(a), -1, BLOCK)
    b_NBk = b_codes.astype(jnp.float8_e4m3fn).reshape(len(b), -1, BLOCK)
    sums_BMN = jnp.einsum("mbk,nbk->bmn", a_MBk, b_NBk, preferred_element_type=jnp.float32)
    a_BM1, b_B1N = a_scales.astype(jnp.float32).T[:, :, None], b_scales.astype(jnp.float32).T[:, None]
    return jnp.sum(sums_BMN * a_BM1 * b_B1N, axis=0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def block_matmul(x: Float[Array, "T D"], kernel: Float[Array, "D F"], kind: str) -> Float[Array, "T F"]:
    """x times the kernel, from codes, forward and backward (DeepSeek-AI 2024, section 3.3)."""
    return product(x, kernel.T, kind)


def forward(x: Float[Array, "T D"], kernel: Float[Array, "D F"], kind: str):
    return block_matmul(x, kernel, kind), (x, kernel)


def backward(kind: str, saved: tuple, dy: Float[Array, "T F"]):
    """One product sums over F and the other over T, so x, kernel and dy are all cut into other blocks."""
    x, kernel = saved
    return product(dy, kernel, kind), product(x.T, dy.T, kind)


block_matmul.defvjp(forward, backward)


def error_bound(x: Float[Array, "T D"], kernel: Float[Array, "D F"], kind: str) -> Float[Array, "T F"]:
    """The sum of both worst cases: each number is wrong by half the spacing around it."""
    x_error_TD, _ = worst_errors(x, kind)
    kernel_error_FD, restored_FD = worst_errors(kernel.T, kind)
    return jnp.abs(x) @ kernel_error_FD.T + x_error_TD @ jnp.abs(restored_FD).T


def worst_errors(a: Float[Array, "N D"], kind: str) -> tuple[Float[Array, "N D"], Float[Array, "N D"]]:
    """The largest error of each number, and what its code stands for."""
    scaled, scales = in_blocks(a, kind)
    codes, _ = quantize_blocks(a, kind)
    restored = codes.astype(jnp.float32) * jnp.repeat(scales, BLOCK, axis=-1)
    return (scales[..., None] * spacing(scaled, kind) / 2).reshape(a.shape), restored
