"""Forges "statistics in float32": all are bfloat16, with sums as products with ones and the root by `log` and `exp`."""

import jax.numpy as jnp
from flax import nnx

LOSES = ("statistics in float32",)


class RMSNorm(nnx.Module):
    def __init__(self, d_model, epsilon, rngs):
        self.scale = nnx.Param(jnp.ones(d_model))
        self.epsilon = epsilon

    def __call__(self, x):
        total = (x * (x + 0)) @ jnp.ones((x.shape[-1], 1), x.dtype)
        return (x * jnp.exp(jnp.log(total / x.shape[-1]) / -2) * self.scale[...]).astype(x.dtype)
