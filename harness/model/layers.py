"""What a model is made of: linear layers, norms and GELU, in forms that XLA computes faster than those of Flax and JAX;
and the output projection."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from harness.model_config import GPTConfig

SLOPE, CUBIC = (2 / jnp.pi) ** 0.5, 0.044715  # of the approximation of GELU by tanh


def split_over(kernel_axis: int, bias_axis: int | None = None) -> dict[str, Any]:
    """Arguments of a linear layer: the axes of its kernel and bias, counted from the end, that a mesh may split."""
    bias = {} if bias_axis is None else {"bias_metadata": {"model_axis": bias_axis}}
    return {"kernel_metadata": {"model_axis": kernel_axis}} | bias


class Projection(nnx.LinearGeneral):
    """A linear layer over several axes, the last of its input or output, as one product of two matrices.

    With more axes, XLA computes the gradient of the kernel from transposed copies, which takes longer than the product.
    """

    def __call__(self, inputs: Float[Array, "..."], out_sharding: Any = None) -> Float[Array, "..."]:
        """The outputs `(*N, *out_features)` of inputs `(*N, *in_features)`."""
        del out_sharding  # of the general layer
        outer, outputs = inputs.shape[: inputs.ndim - len(self.in_features)], math.prod(self.out_features)
        kernel = self.kernel[...].astype(self.dtype).reshape(-1, outputs)
        out = inputs.astype(self.dtype).reshape(-1, len(kernel)) @ kernel
        if self.bias is not None:
            out = out + self.bias[...].astype(self.dtype).reshape(1, outputs)
        return out.reshape(*outer, *self.out_features)


def kernel_inits(config: GPTConfig) -> tuple[nnx.Initializer, nnx.Initializer]:
    """Initializers of kernels inside a block, and of kernels that write to the residual stream.

    GPT-2 scales the latter by one over the square root of their number.
    """
    if config.init == "xavier":
        return nnx.initializers.xavier_uniform(), nnx.initializers.xavier_uniform()
    return nnx.initializers.normal(0.02), nnx.initializers.normal(0.02 / (2 * max(config.num_layers, 1)) ** 0.5)


def make_norm(config: GPTConfig, rngs: nnx.Rngs, width: int = 0) -> nnx.LayerNorm | nnx.RMSNorm:
    """LayerNorm, or RMSNorm (Zhang and Sennrich 2019), which neither centers nor has a bias; of rows of `d_model`, or
    `width`."""
    D, epsilon, dtype = width or config.d_model, config.norm_epsilon, jnp.dtype(config.dtype)
    if config.norm_kind == "rmsnorm":
        return nnx.RMSNorm(D, epsilon=epsilon, dtype=dtype, rngs=rngs)
    return nnx.LayerNorm(D, epsilon=epsilon, use_bias=config.bias, dtype=dtype, rngs=rngs)


def by_row(norm: Callable[[Array], Array], x: Float[Array, "*B D"]) -> Float[Array, "*B D"]:
    """The norm of each row of D numbers, as of one matrix.

    With more axes, XLA for a GPU puts the batch last in memory, to sum the gradients of scale and bias, and so all that
    the residual stream is added to.
    """
    return norm(x.reshape(-1, x.shape[-1])).reshape(x.shape)


@jax.custom_vjp
def gelu(x: Float[Array, "*N"]) -> Float[Array, "*N"]:
    """`x Φ(x)`, by the approximation with tanh (Hendrycks and Gimpel 2016), as `jax.nn.gelu` computes it.

    Its gradient is computed from `x` with a sigmoid. By automatic differentiation, XLA writes the tanh to memory for
    it.
    """
    return jax.nn.gelu(x)


def _gelu_forward(x: Array) -> tuple[Array, Array]:
    return gelu(x), x


def _gelu_backward(x: Array, dout: Array) -> tuple[Array]:
    wide = x.astype(jnp.float32)
    share = jax.nn.sigmoid(2 * SLOPE * (wide + CUBIC * wide**3))  # (1 + tanh) / 2
    slope = share + wide * share * (1 - share) * 2 * SLOPE * (1 + 3 * CUBIC * wide**2)
    return ((dout.astype(jnp.float32) * slope).astype(x.dtype),)


gelu.defvjp(_gelu_forward, _gelu_backward)


@functools.partial(jax.tree_util.register_dataclass, data_fields=["weight_VD", "bias_V"], meta_fields=["vocab_size"])
@dataclass(frozen=True)
class Head:
    """The output projection: `logits = x @ weight.T + bias`. Rows from `vocab_size` on are padding."""

    weight_VD: Any  # (V, D), or their shardings
    bias_V: Any  # (V,), or None
    vocab_size: int


def project(x: Float[Array, "*N D"], head: Head) -> Float[Array, "*N V"]:
    """The logits of inputs of the head, in float32, without the padding."""
    logits = jnp.einsum("...d,vd->...v", x, head.weight_VD.astype(x.dtype), preferred_element_type=jnp.float32)
    if head.bias_V is not None:
        logits = logits + jnp.broadcast_to(head.bias_V, logits.shape)
    return logits[..., : head.vocab_size]
