"""The norms of a block, and of queries and keys."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from harness.model_config import ModelConfig


class OffsetRMSNorm(nnx.Module):
    """RMSNorm in float32 whose scale is stored as its difference from 1, so that decay draws it to 1."""

    def __init__(self, width: int, epsilon: float, dtype: Any):
        self.scale = nnx.Param(jnp.zeros(width))
        self.epsilon, self.dtype = epsilon, dtype

    def __call__(self, x: Float[Array, "*N D"]) -> Float[Array, "*N D"]:
        x = x.astype(jnp.float32)
        normed = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + self.epsilon)
        return (normed * (1 + jnp.broadcast_to(self.scale[...], x.shape))).astype(self.dtype)


def make_norm(config: ModelConfig, rngs: nnx.Rngs, width: int = 0) -> nnx.LayerNorm | nnx.RMSNorm | OffsetRMSNorm:
    """LayerNorm, or RMSNorm (Zhang and Sennrich 2019), which neither centers nor has a bias; of rows of `d_model`, or
    `width`."""
    D, epsilon, dtype = width or config.d_model, config.norm_epsilon, jnp.dtype(config.dtype)
    if config.norm_kind == "rmsnorm_1":
        return OffsetRMSNorm(D, epsilon, dtype)
    if config.norm_kind == "rmsnorm":
        return nnx.RMSNorm(D, epsilon=epsilon, dtype=dtype, rngs=rngs)
    return nnx.LayerNorm(D, epsilon=epsilon, use_bias=config.bias, dtype=dtype, rngs=rngs)


def by_row(norm: Callable[[Array], Array], x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
    """The norm of each row of D numbers, as of one matrix.

    With more axes, XLA for a GPU puts the batch last in memory, to sum the gradients of scale and bias, and so all that
    the residual stream is added to.
    """
    return norm(x.reshape(-1, x.shape[-1])).reshape(x.shape)
