"""Trained weights in the names that the course gives parameters, and how they get into a module."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from safetensors.numpy import load_file

from commandline.text import printable
from grader.authoring import BadOutputError
from harness.data.pocket import stories
from harness.data.tokenizer import get_tokenizer

FOLDER = Path(__file__).parent
TOKENIZER = get_tokenizer("pocket-2k")
END = TOKENIZER.eot_token
END_TEXT = TOKENIZER.decode([END])  # as files of stories spell it
VALIDATION_STORIES, FIRST_VALIDATION = 64, 1_000_000  # no run trains on stories as far back as these
PROMPT = "Once upon a time, there was"


@dataclass(frozen=True)
class Weights:
    """Arrays by name, and the record of how they were made: the sizes of the model, its seed and its validation
    loss."""

    arrays: Mapping[str, np.ndarray]
    record: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.record[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def shape(self) -> dict[str, int]:
        """The sizes from which the course constructs the model, by name."""
        return {key: self.record[key] for key in ("vocab_size", "d_model", "num_heads", "d_ff", "num_layers")}

    def below(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays whose names begin with this, by the rest of the name."""
        return {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}

    def stacked(self, name: str, layers: int) -> np.ndarray:
        """An array of the first blocks, with a leading axis over them."""
        shape = (0, *self.arrays[f"blocks.0.{name}"].shape)
        return np.stack([self.arrays[f"blocks.{i}.{name}"] for i in range(layers)]) if layers else np.zeros(shape)


def _load(name: str) -> Weights:
    arrays = load_file(FOLDER / f"{name}.safetensors")
    record = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return Weights({path: array.astype(np.float32) for path, array in arrays.items()}, record)


def encode(text: str) -> np.ndarray:
    """The ids of a text, (T,) int32."""
    return np.array(TOKENIZER.encode_ordinary(text), np.int32)


def token(token_id: int) -> str:
    """The text of one token for people: `�` where it is part of a character, and words for a control character and the
    end of a text."""
    if token_id == END:
        return "⟨end⟩"
    code = TOKENIZER.decode_single_token_bytes(int(token_id))
    text = code.decode("utf-8", "replace")
    return text if printable(text) == text else f"⟨byte {code[0]}⟩"


def held_out(count: int) -> list[np.ndarray]:
    """The ids of stories that no model was trained on, each with end-of-text."""
    return [np.append(encode(text), END).astype(np.int32) for text in stories(count, start=FIRST_VALIDATION)]


def validation_loss(model: Callable[[jax.Array], jax.Array]) -> float:
    """The mean loss of a model of one story on held-out stories, in nats per token. Compiles for one length."""
    rows = held_out(VALIDATION_STORIES)
    T = max(map(len, rows))
    graph, state = nnx.split(model)

    @jax.jit
    def sums(state: Any, ids_T: jax.Array, count: jax.Array) -> jax.Array:
        logits_TV = nnx.merge(graph, state)(ids_T)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits_TV[:-1], ids_T[1:])
        return jnp.sum(losses * (jnp.arange(1, T) < count))

    total = sum(float(sums(state, np.pad(row, (0, T - len(row))), len(row))) for row in rows)
    return total / sum(len(row) - 1 for row in rows)


def put(module: nnx.Module, arrays: Mapping[str, np.ndarray], what: str) -> Any:
    """Puts arrays into the parameters of a module by name, and returns it. `what` is what the learner calls the module.

    Raises BadOutputError, which names the first parameter that does not fit.
    """
    state = nnx.state(module, nnx.Param)
    found = {".".join(map(str, path)): variable for path, variable in nnx.to_flat_state(state)}
    for name in sorted({*found, *arrays}):
        if name not in found or name not in arrays:
            where = "has no parameter" if name not in found else "has a parameter that the trained model has not:"
            raise BadOutputError(f"`{what}` {where} `{name}`, so the trained weights do not fit")
        shape = tuple(found[name].shape)
        if shape != arrays[name].shape:
            raise BadOutputError(
                f"the parameter `{name}` of `{what}` has the shape {shape}; the trained weights have "
                f"{arrays[name].shape}"
            )
        found[name].set_value(jnp.asarray(arrays[name]))
    nnx.update(module, state)
    return module


def build(make: Callable[[], nnx.Module], arrays: Mapping[str, np.ndarray], what: str) -> Any:
    """The module that `make` constructs, with these arrays in place of its random parameters.

    They are not even drawn, unless the constructor needs numbers.
    """
    try:
        module = nnx.eval_shape(make)
        abstract = not jax.tree.leaves(nnx.split(module, nnx.Param, ...)[-1])
    except Exception:  # raised again by the construction itself, with the learner's own frames
        abstract = False
    return put(module if abstract else make(), arrays, what)


def scrambled(arrays: Mapping[str, np.ndarray], seed: int = 0) -> dict[str, np.ndarray]:
    """Random arrays of the same names and shapes, as before training."""
    rng = np.random.default_rng(seed)

    def fresh(name: str, array: np.ndarray) -> np.ndarray:
        if array.ndim < 2:
            return np.full_like(array, name.endswith("scale"))
        return (rng.standard_normal(array.shape) / np.sqrt(array.shape[-1])).astype(np.float32)

    return {name: fresh(name, array) for name, array in arrays.items()}


POCKET, MODERN = _load("pocket"), _load("modern")


def before_training(weights: Weights = POCKET) -> Weights:
    """Random weights of the same model."""
    return replace(weights, arrays=scrambled(weights.arrays))
