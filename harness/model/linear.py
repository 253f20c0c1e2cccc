"""The linear layers of a block: as products of two matrices, with the axes that a mesh may split, and their
initialization."""

import math
from typing import Any

from flax import nnx
from jaxtyping import Array, Float

from harness.model_config import ModelConfig


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


def kernel_inits(config: ModelConfig) -> tuple[nnx.Initializer, nnx.Initializer]:
    """Initializers of kernels inside a block, and of kernels that write to the residual stream.

    GPT-2 scales the latter by one over the square root of their number.
    """
    if config.init == "xavier":
        return nnx.initializers.xavier_uniform(), nnx.initializers.xavier_uniform()
    return nnx.initializers.normal(0.02), nnx.initializers.normal(0.02 / (2 * max(config.num_layers, 1)) ** 0.5)
