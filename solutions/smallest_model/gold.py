"""The file of silver on a coarse grid, after some training with rounded weights."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
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


STEP = 0.7  # the distance between two numbers of a grid, in standard deviations
UPDATES, RATE, ROWS = 100, 1e-3, 16


def compress(weights, stories):
    steps = {name: np.float16(STEP * array.std()) for name, array in weights.items() if array.ndim > 1}
    return encoded(tuned(weights, steps, stories), steps, used(stories))


def tuned(weights, steps, stories):
    """The weights after training. The model computes with rounded weights, and the gradient passes the rounding as if
    it were not there (Bengio, Leonard and Courville 2013)."""
    T = SIZES["max_T"]
    ids_NT = np.stack([np.pad(story[:T], (0, T - len(story[:T])), constant_values=-1) for story in stories])
    optimizer = optax.adam(optax.linear_schedule(RATE, 0.0, UPDATES))

    def rounded(name, array):
        if name not in steps:
            return array
        nearest = jnp.round(array / np.float32(steps[name])) * np.float32(steps[name])
        return array + jax.lax.stop_gradient(nearest - array)

    def loss(weights, ids_BT):
        parameters = {name: rounded(name, array) for name, array in weights.items()}
        scores = logits(parameters, jnp.maximum(ids_BT[:, :-1], 0))
        losses = optax.softmax_cross_entropy_with_integer_labels(scores, jnp.maximum(ids_BT[:, 1:], 0))
        return jnp.sum(losses * (ids_BT[:, 1:] >= 0)) / jnp.sum(ids_BT[:, 1:] >= 0)

    @jax.jit
    def update(weights, moments, ids_BT):
        updates, moments = optimizer.update(jax.grad(loss)(weights, ids_BT), moments)
        return optax.apply_updates(weights, updates), moments

    weights = {name: jnp.asarray(array) for name, array in weights.items()}
    moments, rng = optimizer.init(weights), np.random.default_rng(0)
    for _ in range(UPDATES):
        weights, moments = update(weights, moments, ids_NT[rng.integers(len(ids_NT), size=ROWS)])
    return weights


def encoded(weights, steps, occurs):
    """The bytes of a file: the steps, the vectors in 16 bits, and the codes of each matrix as words of a Huffman
    code, of which those of frequent codes are short."""
    file = np.packbits(occurs).tobytes()
    for name in names():
        array = np.asarray(weights[name])
        if array.ndim < 2:
            file += array.astype(np.float16).tobytes()
            continue
        codes = np.round((array[occurs] if name == EMBEDDING else array) / np.float32(steps[name]))
        huffman = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_HUFFMAN_ONLY)
        words = huffman.compress(np.clip(codes, -128, 127).astype(np.int8).tobytes()) + huffman.flush()
        file += np.float16(steps[name]).tobytes() + np.uint32(len(words)).tobytes() + words
    return file


def restore(file):
    reader, parameters = Reader(file), {}
    occurs = np.unpackbits(reader.take(np.uint8, SIZES["vocab_size"] // 8)).astype(bool)
    for name, shape in names().items():
        if len(shape) < 2:
            parameters[name] = reader.take(np.float16, *shape).astype(np.float32)
            continue
        step, size = reader.take(np.float16, 1).astype(np.float32), reader.take(np.uint32, 1)[0]
        codes = np.frombuffer(zlib.decompress(reader.take(np.uint8, size).tobytes(), -15), np.int8)
        shape = (int(occurs.sum()), shape[1]) if name == EMBEDDING else shape
        array = codes.astype(np.float32).reshape(shape) * step
        parameters[name] = spread(array, occurs) if name == EMBEDDING else array
    return parameters
