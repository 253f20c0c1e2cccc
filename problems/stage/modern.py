"""The trained modern model, of RMSNorm, SwiGLU, rotary positions and shared heads, with a learner's part in it."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from harness.model.gpt import GPT, Attention, Block
from harness.model_config import ModelConfig
from problems.stage.weights import MODERN

# The names of the harness's parameters inside of a block, and those of problem 40.
_NAMES = {
    "ln1": "norm1", "ln2": "norm2", "gate": "ff.gate_proj", "ff1": "ff.up_proj", "ff2": "ff.down_proj",
    "feed_forward_override": "ff",
}  # fmt: skip


def modern(layers: int = MODERN.num_layers, **parts: Any) -> GPT:
    """The trained modern model, or what its first `layers` blocks are without the others.

    `parts` are those of the harness's GPT, `make_block` and `make_norm`, made of a learner's by the functions below.
    """
    config = ModelConfig(
        vocab_size=MODERN.vocab_size, context=MODERN.max_T, d_model=MODERN.d_model, num_heads=MODERN.num_heads,
        num_kv_heads=MODERN.num_kv_heads, d_ff=MODERN.d_ff, num_layers=layers, norm_kind="rmsnorm", bias=False,
        norm_epsilon=MODERN.norm_epsilon, activation="swiglu", positions="rope", rope_base=MODERN.rope_base,
    )  # fmt: skip
    model = nnx.eval_shape(lambda: GPT(config, nnx.Rngs(0), **parts))
    state = nnx.state(model, nnx.Param)
    for path, variable in nnx.to_flat_state(state):
        array = _array([str(name) for name in path if name != "piece"], layers)
        variable.set_value(jnp.asarray(array.reshape(variable.shape)))
    nnx.update(model, state)
    return model


def _array(path: list[str], layers: int) -> np.ndarray:
    """The array of one parameter of the harness's GPT, up to its shape."""
    if path[0] != "blocks":
        return MODERN.arrays[{"embed": "embed.embedding", "ln_f": "norm_f.scale"}[path[0]]]
    name = ".".join([_NAMES.get(path[1], path[1]), *path[2:]])
    if name == "attn.kv.kernel":  # one kernel for what the course keeps in two
        return np.stack([MODERN.stacked(f"attn.{part}_proj.kernel", layers) for part in "kv"], axis=-2)
    known = {"attn.q.kernel": "attn.q_proj.kernel", "attn.out.kernel": "attn.out_proj.kernel"}
    return MODERN.stacked(known.get(name, name), layers)


def rotating(rope: Callable[..., jax.Array]) -> Callable[..., Block]:
    """The harness's block, whose attention rotates by `rope`: x (T, H, K), positions (T,), base -> (T, H, K)."""

    def rotate(x_BTHK: jax.Array, positions_T: jax.Array, base: float) -> jax.Array:
        return jax.vmap(lambda x_THK: rope(x_THK, positions_T, base))(x_BTHK)

    return functools.partial(Block, make_mixer=functools.partial(Attention, rotate=rotate))


def with_parts(make_norm: Callable[[], nnx.Module], make_feed_forward: Callable[[], nnx.Module]) -> dict[str, Any]:
    """The parts of a model with the norm and the feed-forward network that these construct, modules of (T, D)."""

    def norm(config: ModelConfig, rngs: nnx.Rngs) -> nnx.Module:
        return make_norm()

    return {
        "make_norm": norm,
        "make_block": functools.partial(
            Block, make_norm=norm, make_feed_forward=lambda config, rngs: make_feed_forward()
        ),
    }
