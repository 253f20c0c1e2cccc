"""`rsqrt`, the scale multiplied in bfloat16 after the cast, and both projections as one product."""

import jax
import jax.numpy as jnp
from flax import nnx


class RMSNorm(nnx.Module):
    def __init__(self, d_model, epsilon, *, rngs):
        self.eps, self.scale = epsilon, nnx.Param(nnx.initializers.ones(rngs.params(), (d_model,)))

    def __call__(self, x):
        h = x.astype(jnp.float32)
        h = h * jax.lax.rsqrt(jnp.square(h).mean(-1, keepdims=True) + self.eps)
        return self.scale[...].astype(x.dtype) * h.astype(x.dtype)


class SwiGLU(nnx.Module):
    def __init__(self, d_model, d_ff, *, rngs):
        self.down_proj = nnx.Linear(d_ff, d_model, use_bias=False, rngs=rngs)
        self.up_proj = nnx.Linear(d_model, d_ff, use_bias=False, rngs=rngs)
        self.gate_proj = nnx.Linear(d_model, d_ff, use_bias=False, rngs=rngs)

    def __call__(self, x):
        both = x @ jnp.concatenate([self.gate_proj.kernel[...], self.up_proj.kernel[...]], axis=1)
        gate, up = jnp.split(both, 2, axis=1)
        return self.down_proj(gate * jax.nn.sigmoid(gate) * up)
