"""Models of each layout, with random parameters, so that no initial zeros or ones hide an error."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from harness.config import Config
from harness.data.tokenizer import get_tokenizer
from harness.hugging_face.export import write_model
from harness.model.general import make_gpt
from harness.model.gpt import GPT
from harness.training.sharding import path_names
from tests.harness.conftest import TINY

_SMALL = replace(TINY, context=256, d_model=24, num_heads=2, d_ff=40, num_layers=2)
_LLAMA = replace(_SMALL, num_heads=6, positions="rope", norm_kind="rmsnorm", activation="swiglu", bias=False)
LAYOUTS = {
    "GPT-2": _SMALL,
    "GPT-2, untied, relu": replace(_SMALL, tied_head=False, activation="relu", norm_epsilon=1e-3),
    "GPT-NeoX": replace(_SMALL, positions="rope", rope_base=500.0),
    "GPT-NeoX, untied, relu": replace(_SMALL, positions="rope", tied_head=False, activation="relu", norm_epsilon=1e-3),
    "Llama": replace(_LLAMA, num_kv_heads=2, rope_base=500.0),
    "Llama, untied, biases": replace(_LLAMA, tied_head=False, bias=True, norm_epsilon=1e-3),
    "GPT-2, exact GELU": replace(_SMALL, activation="gelu_exact"),
    "GPT-NeoX, Pythia": replace(
        _SMALL, positions="rope", rotary_fraction=0.5, parallel_residual=True, activation="gelu_exact", tied_head=False
    ),
    "Llama, longer context": replace(_LLAMA, num_kv_heads=2, head_width=8, rope_scaling="llama3:8:1:4:64"),
    "Llama, YaRN": replace(_LLAMA, num_kv_heads=2, rope_base=500.0, rope_scaling="yarn:4:32:1:64:1.138629436111989"),
    "Llama, linear scaling": replace(_LLAMA, rope_scaling="linear:2.5", attention_bias="all"),
    "Mistral": replace(_LLAMA, num_kv_heads=3, window=20, tied_head=False),
    "Qwen 2": replace(_LLAMA, num_kv_heads=2, attention_bias="qkv"),
    "Qwen 3": replace(_LLAMA, num_kv_heads=2, head_width=6, qk_norm="head"),
    "Gemma 3": replace(
        _LLAMA,
        num_layers=5,
        num_kv_heads=1,
        head_width=8,
        qk_norm="head",
        norm="both",
        norm_kind="rmsnorm_1",
        activation="geglu",
        scaled_embedding=True,
        window=20,
        full_every=2,
        window_rope_base=500.0,
        rope_scaling="linear:2",
    ),
    "OLMo 2": replace(_LLAMA, num_kv_heads=3, norm="branch", qk_norm="all", tied_head=False),
    "Qwen 3 with experts": replace(
        _LLAMA, num_kv_heads=2, head_width=6, qk_norm="head", d_ff=16, experts=5, router="softmax_all"
    ),
    "gpt-oss": replace(
        _LLAMA,
        num_layers=2,
        num_kv_heads=2,
        head_width=8,
        bias=True,
        window=20,
        full_every=2,
        sinks=True,
        rope_scaling="yarn_exact:4:32:1:64:1.138629436111989",
        d_ff=16,
        experts=5,
        experts_per_token=3,
        router="softmax",
        clamped_swiglu=True,
        tied_head=False,
    ),
    "Qwen3-Next": replace(
        _LLAMA,
        num_layers=4,
        num_kv_heads=2,
        head_width=8,
        norm_kind="rmsnorm_1",
        qk_norm="head",
        rotary_fraction=0.25,
        attention_gate=True,
        mixer="gated_delta",
        attention_every=2,
        key_heads=2,
        value_heads=4,
        key_width=8,
        value_width=6,
        d_ff=16,
        experts=5,
        router="softmax",
        d_shared=12,
        shared_gate=True,
        tied_head=False,
    ),
}


def filled(config: Config) -> GPT:
    """A model whose parameters are large enough that each one changes the logits."""
    model = nnx.eval_shape(lambda: make_gpt(config.model, nnx.Rngs(0)))
    rng = np.random.default_rng(1)

    def random(path: Any, leaf: Any) -> jax.Array:
        # Activations and logits have a standard deviation of about one, with a width of 24.
        around = 1.0 if path_names(path)[-1] == "scale" and config.norm_kind != "rmsnorm_1" else 0.0
        return jnp.asarray(rng.normal(around, 0.2, leaf.shape), leaf.dtype)

    nnx.update(model, jax.tree_util.tree_map_with_path(random, nnx.state(model)))
    return model


def exported(config: Config, folder: Path) -> GPT:
    """A filled model, written to a new folder."""
    model = filled(config)
    folder.mkdir()
    write_model(config, get_tokenizer(config.tokenizer), model, folder)
    return model
