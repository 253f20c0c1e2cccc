"""Problem 38, reference: RMSNorm and SwiGLU."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class RMSNorm(nnx.Module):
    """Divides each row by its root mean square, then scales it (Zhang and Sennrich 2019, equation 4)."""

    def __init__(self, d_model: int, epsilon: float, rngs: nnx.Rngs):
        self.epsilon = epsilon
        self.scale = nnx.Param(jnp.ones(d_model))

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        x_TD = x.astype(jnp.float32)
        mean_square_T1 = jnp.mean(x_TD**2, axis=-1, keepdims=True)
        normal_TD = x_TD / jnp.sqrt(mean_square_T1 + self.epsilon)
        return (normal_TD * self.scale[...]).astype(x.dtype)


class SwiGLU(nnx.Module):
    """A feed-forward network with a gate (Shazeer 2020, equation 6)."""

    def __init__(self, d_model: int, d_ff: int, rngs: nnx.Rngs):
        self.gate_proj = nnx.Linear(d_model, d_ff, use_bias=False, rngs=rngs)
        self.up_proj = nnx.Linear(d_model, d_ff, use_bias=False, rngs=rngs)
        self.down_proj = nnx.Linear(d_ff, d_model, use_bias=False, rngs=rngs)

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        hidden_TF = jax.nn.silu(self.gate_proj(x)) * self.up_proj(x)
        return self.down_proj(hidden_TF)
