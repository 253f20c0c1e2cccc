"""When a run uses a piece, and what it says of one that it does not use."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.pieces.load import Pieces, check_config, load_pieces
from harness.presets import preset
from tests.harness.conftest import TINY
from tests.harness.pieces.shared import keep, only

LLAMA: dict[str, Any] = dict(norm_kind="rmsnorm", activation="swiglu", positions="rope")
MODERN: dict[str, Any] = dict(LLAMA, bias=False)
EXPERTS: dict[str, Any] = dict(MODERN, experts=3)
LATENT = dict(mixer="latent_attention", d_latent=6, d_rope=4, positions="rope")
ZERO = dict(zero1=True, weight_decay=0.0, beta2=0.999, mesh="8x1")
SEGMENTS: dict[str, Any] = dict(packing="segments")
BLOCKS: dict[str, Any] = dict(MODERN, attention_bias="qkv", cache_blocks=9)
WORDS = {
    "MiniGPT": "with mixer=attention, unless the model is of Llama's kind, in Hugging Face's format, or has experts or "
    "mtp",
    "GPT2": "if the run starts from a GPT-2 in Hugging Face's format",
    "rope": "if the model is of Llama's kind, without rope_scaling",
    "RMSNorm": "if the model is of Llama's kind",
    "SwiGLU": "if the model is of Llama's kind, with bias=false and without experts",
    "GQA": "if the model is of Llama's kind, and its attention has no biases, norms, window or head_width",
    "MultiTokenGPT": "if the model is that of the preset modern, of any size, with mtp=1",
    "mtp_loss": "with mtp=1",
    "ModernGPT": "if the model is that of the preset modern, of any size",
    "LatentAttention": "with mixer=latent_attention, without window and head_width",
    "SelectiveSSM": "with mixer=state_space",
    "Attention": "if attention has rotary positions without rope_scaling, RMSNorm for its norms, and no gate",
    "delta_rule": "with mixer=gated_delta",
    "moe": "with experts, router=sigmoid, d_shared and bias=false, without shared_gate",
    "update_bias": "with experts and router=sigmoid",
    "LoRALinear": "if lora_rank is more than 0",
    "train_step": "if grad_accumulation_steps is 1, mtp is 0, and texts are learned as a whole",
    "accumulated_gradients": "if grad_accumulation_steps is more than 1",
    "make_mesh": "on a mesh of two axes",
    "partition_spec": "without --fsdp",
    "fsdp_spec": "with --fsdp",
    "muon": "with optimizer=muon and your MiniGPT, ModernGPT or MultiTokenGPT",
    "zero_step": "with zero1=true, weight_decay=0, beta2=0.999 and whole batches, on a mesh Dx1",
    "grpo_loss": "by `harness rl`",
    "policy_loss": (
        "by `harness rl` with loss_mean as `ratio`, and without a KL divergence in the loss, or with ratio=token and "
        "kl_estimate=ratio_k3"
    ),
    "verify": "by `harness rl` and `harness eval` with the task arithmetic, tools or gsm8k",
    "tokenize": "unless the texts have marks, as those of data=tools",
    "call_tools": "by `harness rl` and `harness eval` with the task tools",
    "loss_mask": "by `harness rl` and `harness eval` with the task tools",
    "generate": "with mixer=attention, if there is no decode_step",
    "encode": "for prompts, if the tokenizer is not that of a model",
    "pack_stories": "with packing=segments",
    "segment_attention": "with packing=segments, if there is no window",
    "BlockManager": "with cache_blocks",
    "paged_attention": "with cache_blocks, if there is no window",
}
WORDS |= {"CausalMHA": WORDS["MiniGPT"], "segment_mask": WORDS["segment_attention"]}
REWARD = dict(reward="word:cat", base="x", prompts=2, group_size=2, batch_size=4, prompt_tokens=3)


@pytest.mark.parametrize(
    ("name", "used", "unused"),
    [
        ("MiniGPT", {}, MODERN),
        ("MiniGPT", {"norm": "post"}, {"imported": True}),
        ("CausalMHA", {}, dict(mixer="state_space", positions="none")),
        ("GPT2", dict(base="hf:DIR", num_layers=1), {}),
        ("GPT2", dict(imported=True), dict(imported=True, tied_head=False)),
        ("rope", MODERN | {"window": 4}, MODERN | {"rope_scaling": "linear:2"}),
        ("RMSNorm", LLAMA, LLAMA | {"parallel_residual": True}),
        ("SwiGLU", MODERN, LLAMA),
        ("GQA", MODERN, MODERN | {"qk_norm": "head"}),
        ("GQA", LLAMA | {"attention_bias": "none"}, BLOCKS),
        ("ModernGPT", MODERN, MODERN | {"tied_head": False}),
        ("ModernGPT", MODERN, MODERN | {"mtp": 1}),
        ("MultiTokenGPT", MODERN | {"mtp": 1}, MODERN),
        ("mtp_loss", MODERN | {"mtp": 1}, MODERN),
        ("MiniGPT", {}, {"mtp": 1}),
        ("LatentAttention", LATENT, LATENT | {"window": 4}),
        ("SelectiveSSM", dict(mixer="state_space", positions="none"), {}),
        ("Attention", MODERN | {"qk_norm": "head", "window": 4}, MODERN | {"rope_scaling": "linear:2"}),
        ("Attention", MODERN | {"sinks": True}, MODERN | {"qk_norm": "all"}),
        ("SwiGLU", MODERN, EXPERTS),
        ("MiniGPT", {}, dict(experts=3, activation="swiglu")),
        ("delta_rule", dict(mixer="gated_delta", positions="none"), {}),
        ("moe", EXPERTS | {"d_shared": 4}, EXPERTS),
        ("moe", EXPERTS | {"d_shared": 4}, EXPERTS | {"d_shared": 4, "router": "softmax"}),
        ("update_bias", EXPERTS, EXPERTS | {"router": "softmax"}),
        ("zero_step", ZERO, ZERO | EXPERTS),
        ("LoRALinear", dict(base="x", lora_rank=2), {}),
        ("train_step", {}, {"grad_accumulation_steps": 2}),
        ("train_step", {}, dict(field="messages", chat="plain", packing="padded")),
        ("accumulated_gradients", {"grad_accumulation_steps": 2}, {}),
        ("make_mesh", {"mesh": "4x2"}, {"mesh": "2x2x2"}),
        ("partition_spec", {}, {"fsdp": True}),
        ("fsdp_spec", {"fsdp": True}, {}),
        ("muon", {"optimizer": "muon"}, {}),
        ("zero_step", ZERO, ZERO | {"zero1": False}),
        ("grpo_loss", REWARD, {}),
        ("policy_loss", REWARD | {"kl_weight": 0.0}, {}),
        ("policy_loss", REWARD | {"kl_estimate": "ratio_k3"}, REWARD | dict(kl_weight=0.0, ratio="sequence")),
        ("policy_loss", REWARD | dict(kl_in="reward", ratio="sequence", loss_mean="sequence"), {}),
        ("verify", REWARD | {"reward": "task:arithmetic"}, REWARD),
        ("tokenize", {}, {"data": "tools:200"}),
        ("call_tools", REWARD | {"reward": "task:tools"}, REWARD | {"reward": "task:arithmetic"}),
        ("loss_mask", REWARD | {"reward": "task:tools"}, {}),
        ("generate", {}, LATENT),
        ("encode", {}, {"tokenizer": "hf:DIR"}),
        ("pack_stories", SEGMENTS, {}),
        ("segment_attention", SEGMENTS, SEGMENTS | {"window": 4}),
        ("segment_mask", SEGMENTS, {}),
        ("BlockManager", BLOCKS, MODERN),
        ("paged_attention", BLOCKS, BLOCKS | {"window": 4}),
    ],
)
def test_settings_choose_the_pieces(name: str, used: dict[str, Any], unused: dict[str, Any], pieces: Pieces) -> None:
    few = only(pieces, *(other for other in pieces.by_name if other != "segment_attention" or name == other))
    use = few.setup(replace(TINY, **used)).use(name)
    assert (use.is_used, use.words) == (True, WORDS[name])
    use = few.setup(replace(TINY, **unused)).use(name)
    assert (use.is_used, use.words) == (False, f"it is used {WORDS[name]}")
    assert not few.uses(name, replace(TINY, **unused))


@pytest.mark.parametrize(
    ("names", "settings", "why"),
    [
        (
            ("MiniGPT", "GPTBlock", "CausalMHA", "TokenAndPositionEmbed", "train_step", "pack", "GQA", "ModernGPT"),
            SEGMENTS,
            "it takes a row for one story, and with packing=segments a row has several",
        ),
        (("decode_step", "partition_spec"), MODERN, "it needs your MiniGPT, which this run does not use"),
        (
            ("train_step", "adamw", "clip_by_global_norm", "finite_guard", "partition_spec"),
            ZERO,
            "your zero_step does its work",
        ),
        (("segment_mask",), SEGMENTS, "your segment_attention does its work"),
        (("grpo_loss",), REWARD | {"kl_weight": 0.0}, "your policy_loss does its work"),
        (("Attention",), MODERN, "your ModernGPT does its work"),
        (
            ("BlockManager", "paged_attention"),
            {"cache_blocks": 9},
            "it does not work with your MiniGPT, which has no cache of keys and values",
        ),
    ],
)
def test_a_run_says_why_it_does_not_use_a_piece(
    names: tuple[str, ...], settings: dict[str, Any], why: str, pieces: Pieces
) -> None:
    setup = pieces.setup(replace(TINY, **settings))
    for name in names:
        assert (setup.uses(name), setup.use(name).words) == (False, why), name


@pytest.mark.parametrize(("model", "is_used"), [("GPTBlock", False), ("MiniGPT", True)])
def test_muon_needs_one_of_the_models_whose_kernels_are_matrices(model: str, is_used: bool, pieces: Pieces) -> None:
    assert only(pieces, "muon", model).uses("muon", replace(TINY, optimizer="muon")) is is_used


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("train_step", {"grad_accumulation_steps": 2}, "train_step takes a whole batch; --set grad_accum"),
        ("grpo_loss", REWARD | {"loss_mean": "sequence"}, "grpo_loss is a mean over tokens; --set loss_mean=token"),
        (
            "grpo_loss",
            REWARD | {"clip_high": 0.3},
            "ratio=sequence, clip_high, max_weight and kl_estimate=ratio_k3 are",
        ),
        ("adamw", {"mtp": 1, "packing": "segments"}, "with mtp=1, they take a row for one story; --set packing=padded"),
        ("adamw", {"dropout": 0.1}, "the harness applies no dropout with pieces; --set dropout=0"),
    ],
)
def test_settings_that_do_not_work_with_pieces_are_refused(
    name: str, settings: dict[str, Any], why: str, pieces: Pieces
) -> None:
    check_config(TINY, pieces)
    with pytest.raises(UsageError, match=f"do not work with the pieces of .*: {why}"):
        check_config(replace(TINY, **settings), only(pieces, name))


def test_the_first_lines_of_a_run_say_which_pieces_it_uses(workspace: Path) -> None:
    keep(workspace, "p01", "p03", "p05", "p06", "p37", "p38", "p39", "p40", "p66")
    pieces = load_pieces(workspace)
    lines = pieces.describe(replace(preset("modern"), vocab_size=61))
    for name in ("rope", "RMSNorm", "SwiGLU", "GQA"):
        assert f"{name}: yours, through ModernGPT" in lines
    assert f"ModernGPT: yours, {workspace / 'p40_modern_gpt.py'} ({WORDS['ModernGPT']})" in lines
    assert f"MiniGPT: not used (it is used {WORDS['MiniGPT']})" in lines
    assert "muon: built-in (there is no p46_muon.py)" in lines
    pieces.by_name["GPTBlock"] = None  # another object than MiniGPT has
    lines = pieces.describe(TINY)
    assert "CausalMHA: yours, through MiniGPT" in lines
    assert "GPTBlock: not used: your MiniGPT does not import it" in lines
    assert [line.partition(":")[0] for line in lines[:4]] == [
        "TokenAndPositionEmbed",
        "CausalMHA",
        "GPTBlock",
        "MiniGPT",
    ]
