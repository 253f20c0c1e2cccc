"""The pieces that the harness accepts. One `PieceSpec` says all that is specific to a piece; adding a piece adds a
row."""

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import optax

from harness.config import HUGGING_FACE, Config
from harness.hugging_face.layouts import GPT2
from harness.pieces import adapt, smoke_tests, training_smoke_tests
from harness.pieces.smoke_tests import IDS, D, F, G, H, L, T, V, X
from harness.pieces.zero1 import BETA2, is_plain_adam
from harness.presets import is_imported


def _always(config: Config) -> bool:
    return True


def of_llamas_kind(config: Config) -> bool:
    """Whether the parts of problems 37 to 39 can be those of the model: RMSNorm before each part, SwiGLU, rotary
    positions."""
    kinds = (config.norm, config.norm_kind, config.activation, config.positions)
    return kinds == ("pre", "rmsnorm", "swiglu", "rope") and not config.parallel_residual


def _is_of_first_kind(config: Config) -> bool:
    return config.mixer == "attention" and not of_llamas_kind(config) and not is_imported(config)


def _is_gpt2(config: Config) -> bool:
    """Whether the model came as a GPT-2 in Hugging Face's format that the model of problem 41 can be."""
    plain = all(getattr(config, name) == values[0] for name, values in GPT2.has.items())
    return is_imported(config) and plain and config.tied_head and config.norm_epsilon == 1e-5


def _has_unscaled_rope(config: Config) -> bool:
    return of_llamas_kind(config) and config.rope_scaling == "none" and not config.window_rope_base


def _has_swiglu(config: Config) -> bool:
    return of_llamas_kind(config) and not config.bias


def _has_gqa(config: Config) -> bool:
    """Whether attention is that of problem 39: without biases, norms of its own, a window, or heads of another
    width."""
    biases = config.model.qkv_bias or config.model.out_bias
    others = config.qk_norm != "none" or config.window or config.head_width or config.rotary_fraction < 1
    return config.mixer == "attention" and _has_unscaled_rope(config) and not biases and not others


def _is_modern(config: Config) -> bool:
    """Whether the settings describe the model of problem 40, with layers that all see every position."""
    return (
        _has_gqa(config)
        and _has_swiglu(config)
        and config.tied_head
        and not config.head_bias
        and not config.scaled_embedding
    )


def has_segments(config: Config) -> bool:
    """Whether a row holds several stories."""
    return config.packing == "segments"


def _attends_within(config: Config) -> bool:
    return has_segments(config) and not config.window


def _has_blocks(config: Config) -> bool:
    return config.cache_blocks > 0


def _has_own_tokenizer(config: Config) -> bool:
    return not config.tokenizer.startswith(HUGGING_FACE) and not config.chat


def _no_rule(config: Config, names: Collection[str]) -> str:
    return ""


def _train_step_rule(config: Config, names: Collection[str]) -> str:
    usable = config.grad_accumulation_steps == 1 or "accumulated_gradients" in names
    return "" if usable else "train_step takes a whole batch; --set grad_accumulation_steps=1"


@dataclass(frozen=True)
class PieceSpec:
    """A piece of the course that the harness can use in place of its own code."""

    module: str  # the problem's module, which defines the piece
    smoke_test: Callable[..., None]  # called with the piece and those that it requires; raises if the piece is broken
    requires: tuple[str, ...] = ()  # other pieces without which this one is not used
    part_of: str = ""  # a model, which brings its own parts: with it, this is not used on its own
    replaced_by: str = ""  # another piece that does the work of this one: with it, this is not used
    one_of: tuple[str, ...] = ()  # of these pieces, one must be used, too
    not_beside: tuple[str, ...] = ()  # other pieces with which this is not used
    one_story: bool = False  # whether it takes a row for one story, so that it is not used where a row has several
    adapter: Callable[[Config, Any], Any] = adapt.as_is  # to the interface that the harness calls
    used_if: Callable[[Config], bool] = _always
    used_when: str = ""  # `used_if` and `one_of` in words, for the user
    config_rule: Callable[[Config, Collection[str]], str] = _no_rule  # why this config and these pieces conflict, or ""


# The pieces of problems 01 to 06, and those of 37 to 40: the settings choose between the two kinds of models.
_first_model = functools.partial(
    PieceSpec,
    one_story=True,
    used_if=_is_of_first_kind,
    used_when="with mixer=attention, unless the model is of Llama's kind, or in Hugging Face's format",
)
_of_segments = functools.partial(
    PieceSpec, "p54_segment_packing", used_if=has_segments, used_when="with packing=segments"
)
_for_two_axes = functools.partial(
    PieceSpec, used_if=lambda config: config.mesh.count("x") < 2, used_when="on a mesh of two axes"
)
# Models and parts of models without a cache of keys and values
WITHOUT_CACHE = ("MiniGPT", "GPT2", "ModernGPT", "GPTBlock", "CausalMHA", "GQA", "TokenAndPositionEmbed")
_of_cache = functools.partial(PieceSpec, "p63_paged_cache", not_beside=WITHOUT_CACHE)
_part_of_modern = functools.partial(PieceSpec, part_of="ModernGPT")

PIECES: dict[str, PieceSpec] = {
    "TokenAndPositionEmbed": _first_model(
        "p01_token_embedding",
        lambda p: smoke_tests.run_module("TokenAndPositionEmbed", lambda r: p(V, T, D, rngs=r), IDS, (T, D)),
        adapter=adapt.embed_factory,
        part_of="MiniGPT",
    ),
    "CausalMHA": _first_model(
        "p03_causal_mha",
        lambda p: smoke_tests.run_module("CausalMHA", lambda r: p(D, H, rngs=r), X, (T, D)),
        adapter=adapt.attention_factory,
        part_of="MiniGPT",
    ),
    "GPTBlock": _first_model(
        "p05_gpt_block",
        lambda p: smoke_tests.run_module("GPTBlock", lambda r: p(D, H, F, rngs=r), X, (T, D)),
        adapter=adapt.block_factory,
        part_of="MiniGPT",
    ),
    "MiniGPT": _first_model(
        "p06_mini_gpt",
        lambda p: smoke_tests.run_module("MiniGPT", lambda r: p(V, D, H, F, L, max_T=T, rngs=r), IDS, (T, V)),
        adapter=adapt.model_factory,
    ),
    "GPT2": PieceSpec(
        "p41_load_gpt2",
        smoke_tests.run_load_gpt2,
        requires=("load_gpt2",),
        one_story=True,
        adapter=adapt.model_factory,
        used_if=_is_gpt2,
        used_when="if the run starts from a GPT-2 in Hugging Face's format",
    ),
    "next_token_loss": PieceSpec("p07_next_token_loss", training_smoke_tests.run_loss, adapter=adapt.batch_loss),
    "train_step": PieceSpec(
        "p08_train_step",
        training_smoke_tests.run_train_step,
        replaced_by="zero_step",
        one_story=True,
        adapter=adapt.train_step,
        used_if=lambda config: config.grad_accumulation_steps == 1 and not config.has_dialogues,
        used_when="if grad_accumulation_steps is 1, and texts are learned as a whole",
        config_rule=_train_step_rule,
    ),
    "adamw": PieceSpec(
        "p09_adamw",
        lambda p: training_smoke_tests.run_optimizer("adamw", p(1e-3, 0.9, 0.99, 1e-8, 0.1)),
        replaced_by="zero_step",
        adapter=adapt.adamw,
    ),
    "warmup_cosine": PieceSpec("p10_lr_schedule", training_smoke_tests.run_schedule),
    "clip_by_global_norm": PieceSpec("p11_gradient_clipping", training_smoke_tests.run_clip, replaced_by="zero_step"),
    "accumulated_gradients": PieceSpec(
        "p12_gradient_accumulation",
        training_smoke_tests.run_accumulation,
        adapter=adapt.accumulation,
        used_if=lambda config: config.grad_accumulation_steps > 1,
        used_when="if grad_accumulation_steps is more than 1",
    ),
    "finite_guard": PieceSpec("p13_finite_guard", training_smoke_tests.run_guard, replaced_by="zero_step"),
    "tokenize": PieceSpec("p15_tokenize_and_pack", smoke_tests.run_tokenize),
    "pack": PieceSpec("p15_tokenize_and_pack", smoke_tests.run_pack, one_story=True),
    "make_loader": PieceSpec("p16_data_pipeline", smoke_tests.run_loader),
    "make_mesh": _for_two_axes("p20_mesh_and_partitioning", training_smoke_tests.run_make_mesh),
    "partition_spec": PieceSpec(
        "p20_mesh_and_partitioning",
        training_smoke_tests.run_partition_spec,
        requires=("MiniGPT",),  # whose parameter names it matches
        replaced_by="zero_step",
        used_if=lambda config: not config.fsdp,
        used_when="without --fsdp",
    ),
    "shard_batch": _for_two_axes("p21_sharded_train_step", training_smoke_tests.run_shard_batch),
    "fsdp_spec": PieceSpec(
        "p22_fsdp",
        lambda p: training_smoke_tests.run_spec("fsdp_spec", p((D, F), 2)),
        adapter=adapt.fsdp_rule,
        used_if=lambda config: config.fsdp,
        used_when="with --fsdp",
    ),
    "zero_step": PieceSpec(
        "p69_zero_optimizer",
        training_smoke_tests.run_zero_step,
        requires=("zero_state",),
        used_if=is_plain_adam,
        used_when=f"with zero1=true, weight_decay=0, beta2={BETA2} and whole batches, on a mesh Dx1",
    ),
    "resume": PieceSpec("p26_exact_resume", training_smoke_tests.run_resume, requires=("save",)),
    "export_gpt2": PieceSpec(
        "p28_hf_export", smoke_tests.run_export, requires=("MiniGPT",), used_when="by `harness export`"
    ),
    "sampling_distribution": PieceSpec("p29_sampling", smoke_tests.run_distribution),
    "generate": PieceSpec(
        "p29_sampling",
        smoke_tests.run_generate,
        used_if=lambda config: config.mixer == "attention",
        used_when="with mixer=attention, if there is no decode_step",
    ),
    "decode_step": PieceSpec("p30_kv_cache", smoke_tests.run_decode_step, requires=("empty_cache", "MiniGPT")),
    "LoRALinear": PieceSpec(
        "p31_lora",
        smoke_tests.run_lora,
        requires=("merge",),
        used_if=lambda config: config.lora_rank > 0,
        used_when="if lora_rank is more than 0",
    ),
    "grpo_loss": PieceSpec(
        "p51_grpo",
        training_smoke_tests.run_grpo_loss,
        adapter=adapt.rollout_loss,
        used_if=lambda config: bool(config.reward),
        used_when="by `harness rl`",
        config_rule=lambda config, names: (
            "" if config.loss_mean == "token" else "grpo_loss is a mean over tokens; --set loss_mean=token"
        ),
    ),
    "dpo_loss": PieceSpec(
        "p50_preference_losses",
        training_smoke_tests.run_dpo_loss,
        adapter=adapt.preference_loss,
        used_if=lambda config: config.has_pairs,
        used_when="by `harness dpo`",
        config_rule=lambda config, names: (
            "dpo_loss has no label smoothing and sums over tokens; --set dpo_label_smoothing=0 and "
            "dpo_length_normalized=false"
            if config.dpo_label_smoothing or config.dpo_length_normalized
            else ""
        ),
    ),
    "rope": _part_of_modern(
        "p37_rope",
        smoke_tests.run_rope,
        adapter=adapt.rotation,
        used_if=_has_unscaled_rope,
        used_when="if the model is of Llama's kind, without rope_scaling",
    ),
    "RMSNorm": _part_of_modern(
        "p38_rms_norm_swiglu",
        lambda p: smoke_tests.run_module("RMSNorm", lambda r: p(D, 1e-6, rngs=r), X, (T, D)),
        adapter=adapt.norm_factory,
        used_if=of_llamas_kind,
        used_when="if the model is of Llama's kind",
    ),
    "SwiGLU": _part_of_modern(
        "p38_rms_norm_swiglu",
        lambda p: smoke_tests.run_module("SwiGLU", lambda r: p(D, F, rngs=r), X, (T, D)),
        adapter=adapt.feed_forward_factory,
        used_if=_has_swiglu,
        used_when="if the model is of Llama's kind, with bias=false",
    ),
    "GQA": _part_of_modern(
        "p39_grouped_query_attention",
        lambda p: smoke_tests.run_module("GQA", lambda r: p(D, 2 * H, G, 1e4, rngs=r), X, (T, D)),
        one_story=True,
        adapter=adapt.grouped_attention_factory,
        used_if=_has_gqa,
        used_when="if the model is of Llama's kind, and its attention has no biases, norms, window or head_width",
    ),
    "LatentAttention": PieceSpec(
        "p66_latent_attention",
        lambda p: smoke_tests.run_cached_layer("LatentAttention", lambda r: p(D, H, 5, 2, 1e4, rngs=r)),
        adapter=adapt.latent_attention_factory,
        used_if=lambda config: config.mixer == "latent_attention" and not config.window and not config.head_width,
        used_when="with mixer=latent_attention, without window and head_width",
    ),
    "SelectiveSSM": PieceSpec(
        "p67_state_space",
        lambda p: smoke_tests.run_cached_layer("SelectiveSSM", lambda r: p(D, 4, rngs=r)),
        adapter=adapt.state_space_factory,
        used_if=lambda config: config.mixer == "state_space",
        used_when="with mixer=state_space",
    ),
    "ModernGPT": PieceSpec(
        "p40_modern_gpt",
        lambda p: smoke_tests.run_module(
            "ModernGPT", lambda r: p(V, D, 2 * H, G, F, L, T, 1, 1e4, 1e-6, rngs=r), IDS, (T, V)
        ),
        one_story=True,
        adapter=adapt.modern_model_factory,
        used_if=_is_modern,
        used_when="if the model is that of the preset modern, of any size",
    ),
    "muon": PieceSpec(
        "p46_muon",
        lambda p: training_smoke_tests.run_optimizer("muon", p(1e-3, 0.95, 0.1, optax.adamw(1e-3))),
        one_of=(
            "MiniGPT",
            "ModernGPT",
        ),  # the harness's GPT stacks the kernels of all layers: they have more than two axes
        used_if=lambda config: config.optimizer == "muon",
        used_when="with optimizer=muon and your MiniGPT or ModernGPT",
        config_rule=lambda config, names: (
            "muon is that of problem 46; --set muon_nesterov=false" if config.muon_nesterov else ""
        ),
    ),
    "encode": PieceSpec(
        "p53_encode_decode",
        smoke_tests.run_encode,
        used_if=_has_own_tokenizer,
        used_when="for prompts, if the tokenizer is not that of a model",
    ),
    "deduplicate": PieceSpec("p55_near_duplicates", smoke_tests.run_deduplicate, used_when="by `harness duplicates`"),
    "pack_stories": _of_segments(smoke_tests.run_pack_stories),
    "segment_positions": _of_segments(
        lambda p: smoke_tests.run_of_segments("segment_positions", p), adapter=adapt.batched
    ),
    "segment_targets": _of_segments(
        lambda p: smoke_tests.run_of_segments("segment_targets", lambda segments: p(IDS, segments)),
        adapter=adapt.batched,
    ),
    "segment_mask": _of_segments(
        smoke_tests.run_segment_mask,
        adapter=adapt.masked_attention,
        replaced_by="segment_attention",
        used_if=_attends_within,
        used_when="with packing=segments, if there is no window",
    ),
    "segment_attention": _of_segments(
        smoke_tests.run_segment_attention,
        adapter=adapt.segment_attention,
        used_if=_attends_within,
        used_when="with packing=segments, if there is no window",
    ),
    "BlockManager": _of_cache(smoke_tests.run_block_manager, used_if=_has_blocks, used_when="with cache_blocks"),
    "paged_attention": _of_cache(
        smoke_tests.run_paged_attention,
        adapter=adapt.paged_attention,
        used_if=lambda config: _has_blocks(config) and not config.window,
        used_when="with cache_blocks, if there is no window",
    ),
}
# The module that defines each name, including those that are only required by another piece.
MODULES = {
    name: PIECES[name].module if name in PIECES else spec.module
    for piece, spec in PIECES.items()
    for name in (piece, *spec.requires)
}
