"""The parameters of a GPT by path, such as `blocks.attn.qkv.kernel`, as the tables of the layouts name them."""

from typing import Any

import jax
import numpy as np
from flax import nnx

from harness.config import ModelConfig
from harness.model.gpt import GPT


def by_path(model: nnx.Module) -> dict[str, Any]:
    """The parameters of a model by their names, joined by dots. Those of the blocks are stacked over the layers."""
    return {".".join(map(str, path)): leaf.get_value() for path, leaf in nnx.to_flat_state(nnx.state(model, nnx.Param))}


def arrays(model: nnx.Module) -> dict[str, np.ndarray]:
    """The parameters in the memory of the host."""
    return {path: np.asarray(leaf, np.float32) for path, leaf in jax.device_get(by_path(model)).items()}


def shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters of a GPT with these settings."""
    abstract = nnx.eval_shape(lambda: GPT(config, nnx.Rngs(0)))
    return {path: leaf.shape for path, leaf in by_path(abstract).items()}
