"""The presets: named settings to start from."""

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any

from commandline.spelling import nearest
from harness.config import HUGGING_FACE, PAIRS, Config
from harness.errors import UsageError
from harness.model_config import ModelConfig

LLAMA: Mapping[str, Any] = types.MappingProxyType(
    dict(positions="rope", norm_kind="rmsnorm", activation="swiglu", bias=False)
)
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
            "pocket with the blocks of Llama (RMSNorm, SwiGLU, grouped-query attention, no biases), trained with Muon",
            dict(
                packing="padded", context=192, d_model=128, num_heads=4, num_kv_heads=2, d_ff=384, num_layers=2,
                norm_kind="rmsnorm", activation="swiglu", bias=False, positions="rope", init="xavier", optimizer="muon",
                batch_size=8, steps=1900, warmup_steps=50, learning_rate=5e-3, final_lr_fraction=0.02,
                weight_decay=0.01,
                eval_every=190,
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
        "arithmetic": (
            "adds two-digit numbers, mostly by guessing, until `harness rl arithmetic --task arithmetic` rewards what "
            "is right",
            dict(
                data="arithmetic", tokenizer="bytes", packing="padded", context=46, d_model=96, num_heads=4, d_ff=256,
                num_layers=3, norm_kind="rmsnorm", activation="swiglu", bias=False, optimizer="muon", batch_size=64,
                steps=600, warmup_steps=50, learning_rate=5e-3, final_lr_fraction=0.02, weight_decay=0.01,
                eval_every=100,
                prompts=16, prompt_tokens=16, kl_weight=0.0,
            ),
        ),
        "tools": (
            "adds two-digit numbers, mostly by guessing, until `harness rl tools --task tools` rewards who calls the "
            "calculator",
            dict(
                data="tools", tokenizer="bytes", packing="padded", context=96, d_model=96, num_heads=4, d_ff=256,
                num_layers=3, norm_kind="rmsnorm", activation="swiglu", bias=False, optimizer="muon", batch_size=64,
                steps=600, warmup_steps=50, learning_rate=5e-3, final_lr_fraction=0.02, weight_decay=0.01,
                eval_every=100,
                prompts=16, prompt_tokens=16, kl_weight=0.0,
            ),
        ),
        "a-to-a": (
            "no blocks: learns to copy each token; a smoke test of the harness",
            dict(
                objective="copy", num_layers=0, norm="none", positions="none", tied_head=False, d_model=128,
                context=128,
                batch_size=32, steps=200, warmup_steps=10, learning_rate=1e-2, final_lr_fraction=0.1, weight_decay=0.0,
                eval_every=50,
            ),
        ),
        "gpu-10m": (
            "10 million parameters in Llama's blocks, bfloat16; wants one GPU and 200 million tokens",
            dict(
                tokenizer="train:8192", data="tinystories", context=512, d_model=320, num_heads=5, d_ff=864,
                num_layers=6,
                **LLAMA, dtype="bfloat16", batch_size=64, steps=6100, warmup_steps=200, learning_rate=1e-3,
                final_lr_fraction=0.1, eval_every=300,
            ),
        ),
        "gpu-30m": (
            "30 million parameters, likewise; wants one GPU and 600 million tokens",
            dict(
                tokenizer="train:8192", data="tinystories", context=512, d_model=512, num_heads=8, d_ff=1376,
                num_layers=8,
                **LLAMA, dtype="bfloat16", batch_size=128, grad_accumulation_steps=4, steps=9000, warmup_steps=300,
                learning_rate=8e-4, final_lr_fraction=0.1, eval_every=500,
            ),
        ),
        "gpu-70m": (
            "70 million parameters, likewise; wants one GPU and 1.4 billion tokens",
            dict(
                tokenizer="train:16384", data="tinystories", context=1024, d_model=768, num_heads=12, d_ff=2048,
                num_layers=8, **LLAMA, dtype="bfloat16", batch_size=128, grad_accumulation_steps=8, steps=10_700,
                warmup_steps=400, learning_rate=7e-4, final_lr_fraction=0.1, eval_every=500,
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


MODEL = tuple(entry.name for entry in dataclasses.fields(ModelConfig))
# What fine-tuning takes from its base, besides the settings of the model
FROM_BASE = ("preset", "tokenizer", "packing", "objective")
FINE_TUNING: Mapping[str, Any] = types.MappingProxyType(
    dict(
        validation_fraction=0.1, batch_size=8, steps=300, warmup_steps=20, final_lr_fraction=0.1,
        weight_decay=0.0, eval_every=50,
    )
)  # fmt: skip
# What adapters need besides: all words of a text, which the base may never have seen.
ADAPTERS: Mapping[str, Any] = types.MappingProxyType({**FINE_TUNING, "lora_targets": "attn,mlp,embed,head"})
# Learning rates, below so many parameters: of all of them, and of adapters. Below LARGE, they were chosen for `pocket`.
# The others are those of the field: transformers' Trainer and TRL have 5e-5 and 2e-5, and QLoRA (Dettmers et al. 2023)
# 2e-4 for adapters, and 1e-4 for the largest models.
LARGE = 1e7
RATES = ((LARGE, 2e-3, 2e-2), (2e8, 5e-5, 2e-4), (2e9, 2e-5, 2e-4), (math.inf, 1e-5, 1e-4))
# The same for pairs of answers: a tenth of the rates of fine-tuning or less, because a step moves both answers. TRL has
# 1e-6 and Zephyr (Tunstall et al. 2023) 5e-7, and with adapters 5e-6.
PREFERENCE_RATES = ((LARGE, 2e-4, 2e-3), (2e8, 5e-6, 1e-5), (2e9, 1e-6, 1e-5), (math.inf, 5e-7, 5e-6))
# A constant rate and no decay; all else is as in the base.
REINFORCEMENT: Mapping[str, Any] = types.MappingProxyType(
    dict(
        lora_rank=0, schedule_steps=0, schedule_start=1, grad_accumulation_steps=1, learning_rate=5e-4, warmup_steps=0,
        final_lr_fraction=1.0, weight_decay=0.0, clip_norm=1.0, dropout=0.0, eval_every=10, checkpoint_every=0,
        chart_every=0, sample_every=0,
    )
)  # fmt: skip

# In place of those, for a model in Hugging Face's format: it is large, and its stories only show what it forgets.
IMPORTED: Mapping[str, Any] = types.MappingProxyType(
    dict(data="pocket:2000", validation_fraction=0.2, context=1024, learning_rate=2e-6)
)


def fine_tuning(base: Config, name: str, typed: dict[str, str], size: int = 0) -> Config:
    """Settings to fine-tune the run `name`, whose own settings are `base`, with others as typed. `size` is the number
    of its parameters.

    Raises UsageError for a typed setting that the base determines.
    """
    _check_typed(base, name, typed)
    inherited = {key: getattr(base, key) for key in (*MODEL, *FROM_BASE)}
    if typed.get("chat") and base.packing == "packed":
        inherited["packing"] = "padded"
    adapters = typed.get("lora_rank", "0") != "0"
    if "lora_targets" in typed and not adapters:
        raise UsageError("--targets needs --lora R, the rank of the adapters.")
    settings = {
        **inherited,
        **(ADAPTERS if adapters else FINE_TUNING),
        "learning_rate": _rate(RATES, size, typed),
        "imported": bool(base.pieces) and is_imported(base),
    }
    if adapters and is_pretrained(base, name, size):
        settings["lora_targets"] = "attn,mlp"
    if name.startswith(HUGGING_FACE):
        settings["context"] = _context(base)
    return Config(**settings, base=name).with_options(typed)


def preference_tuning(base: Config, name: str, typed: dict[str, str], size: int = 0) -> Config:
    """Settings to train the run `name`, whose own settings are `base`, on pairs of answers, with others as typed, as
    `fine_tuning` does."""
    rate = _rate(PREFERENCE_RATES, size, typed)
    settings = {"field": PAIRS, "packing": "padded", "learning_rate": f"{rate:g}"}
    return fine_tuning(dataclasses.replace(base, dropout=0.0), name, {**settings, **typed}, size)


def _rate(table: tuple[tuple[float, float, float], ...], size: int, typed: dict[str, str]) -> float:
    """The learning rate of a model of this size: of all parameters, or of adapters if they are typed."""
    of_all, of_adapters = next((of_all, of_adapters) for most, of_all, of_adapters in table if size < most)
    return of_adapters if typed.get("lora_rank", "0") != "0" else of_all


def reinforcement(base: Config, name: str, typed: dict[str, str]) -> Config:
    """Settings to reinforce the run `name`, whose own settings are `base`, with others as typed.

    Raises UsageError for a typed setting that the base determines.
    """
    _check_typed(base, name, typed)
    if "lora_targets" in typed and typed.get("lora_rank", "0") == "0":
        raise UsageError("--targets needs --lora R, the rank of the adapters.")
    settings = {**REINFORCEMENT, "base": name, "imported": bool(base.pieces) and is_imported(base)}
    if name.startswith(HUGGING_FACE):
        settings |= {**IMPORTED, "context": _context(base)}
    if base.has_pairs:  # which have another loss; stories show what the model forgets
        settings |= {"field": Config.field, "data": IMPORTED["data"], "validation_fraction": 0.2}
    if typed.get("lora_rank", "0") != "0":
        settings["learning_rate"] *= 10  # adapters need about ten times the rate (Schulman et al. 2025)
    return dataclasses.replace(base, **settings).with_settings(typed)


def is_pretrained(base: Config, name: str, size: int) -> bool:
    """Whether a base is one of other people's, or so large, that its adapters and its dtype are as for those."""
    return name.startswith(HUGGING_FACE) or is_imported(base) or size >= LARGE


def is_imported(config: Config) -> bool:
    """Whether the model came in Hugging Face's format, perhaps through other runs with pieces. Its other settings do
    not tell."""
    return config.imported or config.base.startswith(HUGGING_FACE)


def unchanged(base: Config, name: str) -> Config:
    """Settings to use a model in Hugging Face's format as it is, on one device."""
    return dataclasses.replace(base, base=name, context=_context(base), mesh="1x1")


def _context(base: Config) -> int:
    """The context in which an imported model is used, unless one is typed."""
    return min(base.context, IMPORTED["context"]) if _is_cut(base) else base.context


def _is_cut(base: Config) -> bool:
    """Whether a model works with a shorter context: it has no parameters for positions."""
    return base.positions != "learned"


def _check_typed(base: Config, name: str, typed: dict[str, str]) -> None:
    free = {entry.name for entry in dataclasses.fields(ModelConfig) if entry.metadata["machine"]}
    if name.startswith(HUGGING_FACE):  # which has the longest context, and no dtype to compute in
        free |= {"dtype", *(["context"] if _is_cut(base) else [])}
    if typed.get("chat"):  # dialogues are seldom packed as the base's stories are
        free.add("packing")
    for key in typed:
        if key in {*MODEL, *FROM_BASE} - free:
            raise UsageError(f"{key} comes from the base {name} ({key}={getattr(base, key)}) and cannot be set.")


def preset(name: str) -> Config:
    """The settings of a preset. Raises UsageError, naming the nearest preset, if there is none of that name."""
    if name not in PRESETS:
        close = nearest(name, PRESETS)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise UsageError(f"There is no preset {name!r}.{hint} `harness presets` lists them.")
    return Config(preset=name, **PRESETS[name][1])
