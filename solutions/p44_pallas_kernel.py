"""Problem 44, reference: RMSNorm (Zhang and Sennrich 2019) as a Pallas kernel, forward and backward."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def rms_norm(x: Float[Array, "T D"], weight: Float[Array, "D"], epsilon: float, block: int) -> Float[Array, "T D"]:
    """x / rms(x) * weight, where rms(x) is √(mean(x²) + epsilon) of each row. The kernel handles `block` rows at a
    time."""
    return _forward(x, weight, epsilon, block)[0]


def _forward(x: Array, weight: Array, epsilon: float, block: int) -> tuple[Array, tuple[Array, Array]]:
    def kernel(x_ref, weight_ref, out_ref) -> None:
        x_CD = x_ref[...]
        out_ref[...] = x_CD * jax.lax.rsqrt(_mean_square(x_CD) + epsilon) * weight_ref[...]

    rows, whole = _specs(x, block)
    out = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=_grid(x, block),
        in_specs=[rows, whole],
        out_specs=rows,
        interpret=_interpret(),
    )(x, weight)
    return out, (x, weight)


def _backward(epsilon: float, block: int, kept: tuple[Array, Array], d_out: Array) -> tuple[Array, Array]:
    x, weight = kept

    def kernel(x_ref, weight_ref, d_out_ref, dx_ref, d_weight_ref) -> None:
        i, x_CD = pl.program_id(0), x_ref[...]
        scale_C1 = jax.lax.rsqrt(_mean_square(x_CD) + epsilon)
        normal_CD = x_CD * scale_C1
        d_normal_CD = d_out_ref[...] * weight_ref[...]
        dx_ref[...] = scale_C1 * (d_normal_CD - normal_CD * jnp.mean(d_normal_CD * normal_CD, axis=1, keepdims=True))

        # Rows after the last one of x hold anything, NaN included.
        row_C1 = i * block + jax.lax.broadcasted_iota(jnp.int32, (block, 1), 0)
        added_D = jnp.sum(jnp.where(row_C1 < len(x), d_out_ref[...] * normal_CD, 0), axis=0)

        @pl.when(i == 0)
        def _() -> None:
            d_weight_ref[...] = jnp.zeros_like(d_weight_ref)

        d_weight_ref[...] += added_D

    rows, whole = _specs(x, block)
    return pl.pallas_call(
        kernel,
        out_shape=(jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(weight.shape, weight.dtype)),
        grid=_grid(x, block),
        in_specs=[rows, whole, rows],
        out_specs=(rows, whole),
        interpret=_interpret(),
    )(x, weight, d_out)


rms_norm.defvjp(_forward, _backward)


def _grid(x: Array, block: int) -> tuple[int]:
    """One step for each block, the last one included, which may hang over the end."""
    return (pl.cdiv(len(x), block),)


def _mean_square(x_CD: Array) -> Array:
    return jnp.mean(x_CD * x_CD, axis=1, keepdims=True)


def _specs(x: Array, block: int) -> tuple[pl.BlockSpec, pl.BlockSpec]:
    """Block i of the rows, (C, D), and all of an array (D,)."""
    D = x.shape[1]
    return pl.BlockSpec((block, D), lambda i: (i, 0)), pl.BlockSpec((D,), lambda i: (0,))


def _interpret() -> bool:
    """Pallas compiles kernels for accelerators only."""
    return jax.default_backend() == "cpu"
