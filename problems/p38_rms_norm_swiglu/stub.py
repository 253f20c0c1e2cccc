"""Problem 38: RMSNorm and SwiGLU. The page is in pages/p38_rms_norm_swiglu.md."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float


class RMSNorm(nnx.Module):
    """Divides each row by its root mean square, then multiplies it by a learned
    scale."""

    def __init__(self, d_model: int, epsilon: float, rngs: nnx.Rngs):
        """Creates `scale`, an nnx.Param of ones, (d_model,). `rngs` is not needed."""
        raise NotImplementedError

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        """Returns (T, D) in the dtype of x, float32 or bfloat16."""
        raise NotImplementedError


class SwiGLU(nnx.Module):
    """A feed-forward network whose hidden layer is a product of two projections,
    one of them through SiLU."""

    def __init__(self, d_model: int, d_ff: int, rngs: nnx.Rngs):
        """Creates `gate_proj` and `up_proj` (d_model to d_ff) and `down_proj` (d_ff to
        d_model), without biases."""
        raise NotImplementedError

    def __call__(self, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
        """Returns (T, D) for x (T, D)."""
        raise NotImplementedError
