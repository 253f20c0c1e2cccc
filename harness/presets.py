"""The presets: named settings to start from."""

import types
from collections.abc import Mapping
from typing import Any

from commandline.spelling import nearest
from harness.config import Config
from harness.errors import UsageError

PRESETS: Mapping[str, tuple[str, dict[str, Any]]] = types.MappingProxyType(
    {
        "pocket": (
            "trains on 2 CPU cores in a few minutes and tells stories",
            dict(
                packing="padded", context=192, d_model=128, num_heads=2, d_ff=512, num_layers=2, positions="rope",
                activation="relu", batch_size=8, steps=2400, warmup_steps=50, learning_rate=5e-3, final_lr_fraction=0.1,
                weight_decay=0.01, eval_every=200,
            ),
        ),
        "modern": (
            "pocket with the blocks of Llama: RMSNorm, SwiGLU, grouped-query attention, no biases",
            dict(
                packing="padded", context=192, d_model=128, num_heads=4, num_kv_heads=2, d_ff=384, num_layers=2,
                norm_kind="rmsnorm", activation="swiglu", bias=False, positions="rope", batch_size=8, steps=2400,
                warmup_steps=50, learning_rate=5e-3, final_lr_fraction=0.1, weight_decay=0.01, eval_every=200,
            ),
        ),
        "tutorial": (
            "the model of the JAX tutorial: 4 blocks, post-LN, Adam at 1e-3",
            dict(
                tokenizer="gpt2", data="tinystories", packing="padded", context=128, d_model=128, num_heads=4, d_ff=256,
                num_layers=4, norm="post", norm_epsilon=1e-6, activation="relu", tied_head=False, head_bias=True,
                init="xavier", dropout=0.1, batch_size=32, steps=10_000, learning_rate=1e-3, weight_decay=0.0,
                beta2=0.999, clip_norm=0.0, eval_every=1000,
            ),
        ),
        "six-by-192": (
            "6 blocks of width 192 without LayerNorm, untied head",
            dict(
                tokenizer="gpt2", data="tinystories", packing="padded", context=128, d_model=192, num_heads=6, d_ff=512,
                num_layers=6, norm="none", activation="relu", tied_head=False, batch_size=32, steps=5000,
                warmup_steps=100, learning_rate=2e-4, final_lr_fraction=0.1, weight_decay=0.0, beta2=0.999,
                eval_every=500,
            ),
        ),
        "a-to-a": (
            "no blocks: learns to copy each token; a smoke test of the harness",
            dict(
                objective="copy", num_layers=0, norm="none", positions="none", tied_head=False, d_model=128, context=128,
                batch_size=32, steps=200, warmup_steps=10, learning_rate=1e-2, final_lr_fraction=0.1, weight_decay=0.0,
                eval_every=50,
            ),
        ),
        "gpt2-small": (
            "GPT-2 small: 12 blocks of width 768, context 1024, bfloat16; needs a GPU",
            dict(
                tokenizer="gpt2", data="tinystories", context=1024, d_model=768, num_heads=12, d_ff=3072, num_layers=12,
                dtype="bfloat16", batch_size=32, steps=20_000, warmup_steps=700, learning_rate=6e-4,
                final_lr_fraction=0.1, eval_every=500,
            ),
        ),
    }
)  # fmt: skip


def preset(name: str) -> Config:
    """The settings of a preset. Raises UsageError, naming the nearest preset, if there is none of that name."""
    if name not in PRESETS:
        close = nearest(name, PRESETS)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise UsageError(f"There is no preset {name!r}.{hint} `harness presets` lists them.")
    return Config(preset=name, **PRESETS[name][1])
