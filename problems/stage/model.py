"""The trained model as the harness builds it, with a learner's part in place of the harness's own."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from harness.config import ModelConfig
from harness.model.gpt import GPT
from problems.stage.weights import POCKET, Weights

EPSILON = 1e-6  # of the LayerNorm of problem 06


def gpt(layers: int | None = None, weights: Weights = POCKET, **parts: Any) -> GPT:
    """The trained model, or what its first `layers` blocks are without the others.

    `parts` are those of the harness's GPT: `make_block`, `make_embed` and `make_norm`, as `harness.pieces.adapt` makes them of a
    learner's. Their parameters get the trained values by name.
    """
    layers = weights.num_layers if layers is None else layers
    config = ModelConfig(
        vocab_size=weights.vocab_size, context=weights.max_T, d_model=weights.d_model, num_heads=weights.num_heads,
        d_ff=weights.d_ff, num_layers=layers, norm_epsilon=EPSILON, activation="relu",
    )  # fmt: skip
    model = nnx.eval_shape(lambda: GPT(config, nnx.Rngs(0), **parts))
    state = nnx.state(model, nnx.Param)
    for path, variable in nnx.to_flat_state(state):
        array = _array(weights, [str(name) for name in path if name != "piece"], layers, config)
        if array.shape != tuple(variable.shape):
            raise ValueError(f"{path}: {array.shape} is not {variable.shape}")
        variable.set_value(jnp.asarray(array))
    nnx.update(model, state)
    return model


def _array(weights: Weights, path: list[str], layers: int, config: ModelConfig) -> np.ndarray:
    """The array of one parameter of the harness's GPT."""
    name = ".".join(path).removeprefix("embed_override.")
    if not name.startswith("blocks."):
        return weights.arrays["embed.embedding" if name == "embed" else name]
    name = name.removeprefix("blocks.")
    D, H = config.d_model, config.num_heads
    if name.startswith("attn.qkv."):  # one kernel for what the course keeps in three
        kind = name.rpartition(".")[2]
        parts = [weights.stacked(f"attn.{part}_proj.{kind}", layers) for part in "qkv"]
        return np.stack(parts, axis=-2).reshape(*parts[0].shape[:-1], 3, H, D // H)
    if name.startswith("attn.out."):
        kind = name.rpartition(".")[2]
        array = weights.stacked(f"attn.out_proj.{kind}", layers)
        return array.reshape(layers, H, D // H, D) if kind == "kernel" else array
    return weights.stacked(name, layers)


@contextmanager
def attention_by(attend: Callable[..., jax.Array]) -> Iterator[None]:
    """Inside of it, the harness's model attends by `attend`, one head of one story: q, k and v (T, K) -> (T, K)."""
    over_heads = jax.vmap(attend, in_axes=1, out_axes=1)
    with mock.patch("harness.model.gpt.causal_attention", jax.vmap(over_heads)):
        yield


def stream(ids_T: np.ndarray, layers: int, **parts: Any) -> jax.Array:
    """The residual stream after the first `layers` blocks, (T, D)."""
    model = gpt(layers, **parts)
    model.ln_f = None
    graph, state = nnx.split(model)
    return jax.jit(lambda state, ids: nnx.merge(graph, state).hidden(ids[None])[0])(state, ids_T)


def into_attention(ids_T: np.ndarray, layer: int) -> jax.Array:
    """What enters the attention of a layer, (T, D): the normalized residual stream."""
    norm = {name: jnp.asarray(array) for name, array in POCKET.below(f"blocks.{layer}.ln1.").items()}
    x_TD = jax.nn.standardize(stream(ids_T, layer), axis=-1, epsilon=EPSILON)
    return x_TD * norm["scale"] + norm["bias"]


def queries_and_keys(ids_T: np.ndarray, layer: int) -> tuple[jax.Array, jax.Array]:
    """The queries and the keys of each head of a layer, (H, T, K)."""
    x_TD = into_attention(ids_T, layer)
    attention: Mapping[str, np.ndarray] = POCKET.below(f"blocks.{layer}.attn.")

    def project(part: str) -> jax.Array:
        y_TD = x_TD @ attention[f"{part}_proj.kernel"] + attention[f"{part}_proj.bias"]
        return jnp.stack(jnp.split(y_TD, POCKET.num_heads, axis=-1))

    return project("q"), project("k")


def jitted(model: nnx.Module) -> Callable[..., jax.Array]:
    """The model as one compiled function of its inputs."""
    graph, state = nnx.split(model)
    run = jax.jit(lambda state, *inputs: nnx.merge(graph, state)(*inputs))
    return lambda *inputs: run(state, *inputs)
