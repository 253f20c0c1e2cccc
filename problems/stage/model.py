"""The trained model as the harness builds it, with a learner's part in place of the harness's own."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from harness.model.gpt import GPT, Attention, Block
from harness.model.loss import token_loss
from harness.model_config import ModelConfig
from harness.pieces.adapt import BatchedLayer
from problems.stage.weights import POCKET, Weights

EPSILON = 1e-6  # of the LayerNorm of problem 06


def gpt(layers: int | None = None, weights: Weights = POCKET, **parts: Any) -> GPT:
    """The trained model, or what its first `layers` blocks are without the others.

    `parts` are those of the harness's GPT, `make_block` and `make_norm`, made of a learner's by the functions below.
    Their parameters get the trained values by name.
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


def attending(attend: Callable[..., jax.Array]) -> Callable[..., Block]:
    """The harness's block, whose heads attend by `attend`, one head of one story: q, k and v (T, K) -> (T, K)."""
    over_heads = jax.vmap(attend, in_axes=1, out_axes=1)

    class Attending(Attention):
        def _attend(self, window: int, layer: Any, segments: Any, *heads: jax.Array) -> jax.Array:
            return jax.vmap(over_heads)(*heads)

    return functools.partial(Block, make_mixer=Attending)


def with_attention(make: Callable[[], nnx.Module]) -> Callable[..., Block]:
    """The harness's block with the attention that `make` constructs, a module of one story."""
    return functools.partial(Block, make_mixer=lambda config, rngs: BatchedLayer(make()))


def block(make: Callable[[], nnx.Module]) -> Callable[..., nnx.Module]:
    """The block that `make` constructs, a module of one story, as the harness calls it."""
    return lambda config, rngs: BatchedLayer(make())


def normalizing(norm: Callable[..., jax.Array]) -> dict[str, Any]:
    """The parts of a model that normalizes by `norm`, a function of x (T, D), scale, bias and epsilon."""

    class Norm(nnx.Module):
        def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
            self.scale = nnx.Param(jnp.ones(config.d_model))
            self.bias = nnx.Param(jnp.zeros(config.d_model))

        def __call__(self, x_ND: jax.Array) -> jax.Array:  # the rows of all stories
            return norm(x_ND, self.scale[...], self.bias[...], EPSILON)

    return {"make_norm": Norm, "make_block": functools.partial(Block, make_norm=Norm)}


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


def loss(model: GPT, ids_T: np.ndarray) -> float:
    """The harness's own loss of a story, in nats per token."""
    x_BTD = model.hidden(jnp.asarray(ids_T)[None])
    return float(token_loss(x_BTD[:, :-1], jnp.asarray(ids_T)[None, 1:], model.output())) / (len(ids_T) - 1)


def jitted(model: nnx.Module) -> Callable[..., jax.Array]:
    """The model as one compiled function of its inputs."""
    graph, state = nnx.split(model)
    run = jax.jit(lambda state, *inputs: nnx.merge(graph, state)(*inputs))
    return lambda *inputs: run(state, *inputs)
