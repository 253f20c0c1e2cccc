"""The parameters of a GPT by path, such as `blocks.attn.qkv.kernel`, as the tables of the layouts name them."""

import errno
import functools
import math
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx
from safetensors import SafetensorError
from safetensors.numpy import save_file

from harness.model.general import make_gpt
from harness.model_config import ModelConfig

OF_TOKENS = ("embed", "head", "head_bias")  # have one row per token


def by_path(model: nnx.Module) -> dict[str, Any]:
    """The parameters of a model by their names, joined by dots. Those of the blocks are stacked over the layers."""
    return {".".join(map(str, path)): leaf.get_value() for path, leaf in nnx.to_flat_state(nnx.state(model, nnx.Param))}


def arrays(model: nnx.Module, vocab_size: int) -> dict[str, np.ndarray]:
    """The parameters in the memory of the host, without the rows after the vocabulary."""
    host = {path: np.asarray(leaf, np.float32) for path, leaf in jax.device_get(by_path(model)).items()}
    return host | {path: host[path][:vocab_size] for path in OF_TOKENS if path in host}


def with_rows(path: str, parameter: np.ndarray, rows: int) -> np.ndarray:
    """The parameter with rows of zeros after the vocabulary, the reverse of what `arrays` leaves out."""
    missing = rows - len(parameter) if path in OF_TOKENS else 0
    return np.pad(parameter, [(0, missing), *[(0, 0)] * (parameter.ndim - 1)]) if missing > 0 else parameter


def count(config: ModelConfig) -> int:
    """The number of parameters of a GPT with these settings, without the rows after the vocabulary."""
    return sum(map(math.prod, shapes(config).values()))


def save(tensors: Mapping[str, np.ndarray], file: Path) -> None:
    """Writes tensors as a file of safetensors. Raises OSError, such as for a full disk."""
    try:
        save_file(dict(tensors), file, metadata={"format": "pt"})
    except SafetensorError as error:
        found = re.search(r"\(os error (\d+)\)", str(error))
        number = int(found[1]) if found else errno.EIO
        raise OSError(number, os.strerror(number), str(file)) from error
    file.chmod(0o644)  # safetensors makes it readable by its owner only


@functools.lru_cache(maxsize=8)
def shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters of a GPT with these settings, without the rows after the vocabulary."""
    unpadded = replace(config, vocab_multiple=1)
    abstract = nnx.eval_shape(lambda: make_gpt(unpadded, nnx.Rngs(0)))
    return {path: leaf.shape for path, leaf in by_path(abstract).items()}
