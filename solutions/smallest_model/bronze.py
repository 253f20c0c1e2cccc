"""Codes of 4 bits, with a scale for each group of 16 weights, without the rows of tokens that no story has."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from p06_mini_gpt import MiniGPT

SIZES = {"vocab_size": 2048, "d_model": 96, "num_heads": 4, "d_ff": 384, "num_layers": 3, "max_T": 192}
EMBEDDING = "embed.embedding"


def empty():
    return nnx.split(nnx.eval_shape(lambda: MiniGPT(**SIZES, rngs=nnx.Rngs(0))))


def names() -> dict[str, tuple[int, ...]]:
    return {".".join(map(str, path)): variable.shape for path, variable in nnx.to_flat_state(empty()[1])}


def logits(parameters, tokens):
    graph, state = empty()
    flat = [(path, x.replace(parameters[".".join(map(str, path))])) for path, x in nnx.to_flat_state(state)]
    return jax.vmap(nnx.merge(graph, nnx.from_flat_state(flat)))(jnp.asarray(tokens))


class Reader:
    """Takes arrays from the front of a file."""

    def __init__(self, file):
        self.file = file

    def take(self, dtype, *shape):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        taken, self.file = self.file[:size], self.file[size:]
        return np.frombuffer(taken, dtype).reshape(shape)


def used(stories):
    """Which tokens occur, bool (V,)."""
    return np.isin(np.arange(SIZES["vocab_size"]), np.concatenate(stories))


def spread(rows, occurs):
    """The rows of all tokens, from those of the tokens that occur. The others are 0."""
    embedding = np.zeros((len(occurs), rows.shape[1]), np.float32)
    embedding[occurs] = rows
    return embedding


LARGEST, GROUP = 7, 16


def compress(weights, stories):
    occurs, file = used(stories), []
    for name in names():
        array = weights[name][occurs] if name == EMBEDDING else weights[name]
        if array.ndim < 2:
            file.append(array.astype(np.float16))
            continue
        groups = np.pad(array.ravel(), (0, -array.size % GROUP)).reshape(-1, GROUP)
        scale = np.maximum(np.abs(groups).max(1, keepdims=True) / LARGEST, 1e-4).astype(np.float16)
        codes = np.round(groups / scale.astype(np.float32)).astype(np.int8) + LARGEST
        pairs = codes.astype(np.uint8).reshape(-1, 2)
        file += [scale, pairs[:, 0] * 16 + pairs[:, 1]]
    return b"".join(x.tobytes() for x in [np.packbits(occurs), *file])


def restore(file):
    reader, parameters = Reader(file), {}
    occurs = np.unpackbits(reader.take(np.uint8, SIZES["vocab_size"] // 8)).astype(bool)
    for name, shape in names().items():
        if len(shape) < 2:
            parameters[name] = reader.take(np.float16, *shape).astype(np.float32)
            continue
        shape = (int(occurs.sum()), shape[1]) if name == EMBEDDING else shape
        size = int(np.prod(shape))
        scale = reader.take(np.float16, -(-size // GROUP), 1).astype(np.float32)
        pairs = reader.take(np.uint8, len(scale) * GROUP // 2)
        codes = np.stack([pairs // 16, pairs % 16], 1).reshape(-1, GROUP).astype(np.float32) - LARGEST
        array = (codes * scale).ravel()[:size].reshape(shape)
        parameters[name] = spread(array, occurs) if name == EMBEDDING else array
    return parameters
