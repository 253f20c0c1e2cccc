"""One row at a time, with the root mean square as a length divided by √D."""

import jax
import jax.numpy as jnp
from flax import nnx


class RMSNorm(nnx.Module):
    def __init__(self, d_model, epsilon, rngs):
        self.scale = nnx.Param(jnp.ones(d_model))
        self.epsilon = epsilon

    def __call__(self, x):
        def one(row):
            wide = row.astype("float32")
            return (wide / jnp.sqrt(jnp.dot(wide, wide) / row.size + self.epsilon) * self.scale[...]).astype(row.dtype)

        return jax.vmap(one)(x)


class SwiGLU(nnx.Module):
    def __init__(self, d_model, d_ff, rngs):
        self.up_proj = nnx.Linear(d_model, d_ff, use_bias=False, rngs=rngs)
        self.gate_proj = nnx.Linear(d_model, d_ff, use_bias=False, rngs=rngs)
        self.down_proj = nnx.Linear(d_ff, d_model, use_bias=False, rngs=rngs)

    def __call__(self, x):
        return jax.vmap(lambda row: self.down_proj(self.up_proj(row) * nnx.swish(self.gate_proj(row))))(x)
