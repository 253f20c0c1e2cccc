"""The smallest model: the trained weights in 16 bits each, from your own MiniGPT. It runs, and is in no class.

The page is printed by `grade show smallest_model`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from p06_mini_gpt import MiniGPT

SIZES = {"vocab_size": 2048, "d_model": 96, "num_heads": 4, "d_ff": 384, "num_layers": 3, "max_T": 192}


def empty() -> nnx.State:
    """The state of a model without numbers."""
    return nnx.state(nnx.eval_shape(lambda: MiniGPT(**SIZES, rngs=nnx.Rngs(0))), nnx.Param)


def names() -> dict[str, tuple[int, ...]]:
    """The shapes of all weights by name, in order."""
    return {".".join(map(str, path)): variable.shape for path, variable in nnx.to_flat_state(empty())}


def compress(weights: Mapping[str, np.ndarray], stories: Sequence[np.ndarray]) -> bytes:
    """The bytes of a file that holds the weights, float32 by name. `stories` are the ids of public stories."""
    return b"".join(weights[name].astype(np.float16).tobytes() for name in names())


def restore(file: bytes) -> Any:
    """The parameters for `logits`, any tree of arrays. Runs in a process that has the file and no weights."""
    numbers, parameters = np.frombuffer(file, np.float16).astype(np.float32), {}
    for name, shape in names().items():
        parameters[name], numbers = numbers[: math.prod(shape)].reshape(shape), numbers[math.prod(shape) :]
    return parameters


def logits(parameters: Any, tokens: jax.Array) -> jax.Array:
    """The logits (B, T, V) of the next token. Those at a position may depend on the row up to it, and on nothing
    else."""
    graph = nnx.split(nnx.eval_shape(lambda: MiniGPT(**SIZES, rngs=nnx.Rngs(0))))[0]
    state = [
        (path, variable.replace(parameters[".".join(map(str, path))])) for path, variable in nnx.to_flat_state(empty())
    ]
    return jax.vmap(nnx.merge(graph, nnx.from_flat_state(state)))(jnp.asarray(tokens))
