"""Models of `transformers` with random parameters, one of each kind that is imported. Needs torch and transformers."""

from pathlib import Path
from typing import Any

import numpy as np

_SIZES = dict(max_position_embeddings=128, hidden_size=24, num_hidden_layers=2, intermediate_size=40)
_HEADS = dict(num_attention_heads=6, num_key_value_heads=2)
_ROPE = {"rope_type": "default", "rope_theta": 700.0}
_GEMMA = _SIZES | dict(
    num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=1, head_dim=8, query_pre_attn_scalar=8
)


def _layers(number: int, full_every: int) -> list[str]:
    return ["sliding_attention" if (i + 1) % full_every else "full_attention" for i in range(number)]


_LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 700.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
_YARN = {
    "rope_type": "yarn", "rope_theta": 700.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
    "original_max_position_embeddings": 32,
}  # fmt: skip
_EXPERTS = dict(
    moe_intermediate_size=16, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True,
)  # fmt: skip
_DELTA = dict(
    linear_key_head_dim=8, linear_value_head_dim=6, linear_num_key_heads=2, linear_num_value_heads=4,
    shared_expert_intermediate_size=12,
)  # fmt: skip
MODELS = {
    "gpt2": ("GPT2", dict(n_positions=128, n_embd=24, n_layer=2, n_head=3)),
    "gpt2, exact": ("GPT2", dict(n_positions=128, n_embd=24, n_layer=2, n_head=3, activation_function="gelu")),
    "gpt_neox": (
        "GPTNeoX",
        dict(
            _SIZES, num_attention_heads=3, hidden_act="gelu_pytorch_tanh", use_parallel_residual=False,
            rope_parameters=_ROPE | {"partial_rotary_factor": 1.0},
        ),
    ),
    "pythia": ("GPTNeoX", dict(_SIZES, num_attention_heads=3, rope_parameters=_ROPE | {"partial_rotary_factor": 0.25})),
    "gpt_neox, no biases": ("GPTNeoX", dict(_SIZES, num_attention_heads=3, attention_bias=False)),
    "llama": ("Llama", dict(_SIZES, **_HEADS, rope_parameters=_ROPE)),
    "llama, smollm": ("Llama", dict(_SIZES, **_HEADS, tie_word_embeddings=True)),
    "llama 3": ("Llama", dict(_SIZES, **_HEADS, rope_parameters=_LLAMA3)),
    "llama, wide heads": ("Llama", dict(_SIZES, **_HEADS, head_dim=8, attention_bias=True)),
    "llama, other biases": ("Llama", dict(_SIZES, **_HEADS, mlp_bias=True)),
    "mistral": ("Mistral", dict(_SIZES, **_HEADS, sliding_window=7)),
    "mistral, all": ("Mistral", dict(_SIZES, **_HEADS, sliding_window=None)),
    "qwen 2.5": ("Qwen2", dict(_SIZES, **_HEADS, tie_word_embeddings=True)),
    "qwen 3": ("Qwen3", dict(_SIZES, **_HEADS, head_dim=8)),
    "olmo 2": ("Olmo2", dict(_SIZES, **_HEADS)),
    "gemma 3": ("Gemma3Text", dict(_GEMMA, sliding_window=7, layer_types=_layers(5, 2))),
    "gemma 3, sixth": ("Gemma3Text", dict(_GEMMA | {"num_hidden_layers": 8}, sliding_window=7)),
    "gemma 3, windows": ("Gemma3Text", dict(_GEMMA, sliding_window=7, layer_types=_layers(5, 9))),
    "qwen 3, experts": ("Qwen3Moe", dict(_SIZES, **_HEADS, **_EXPERTS, head_dim=8)),
    "qwen 3, experts over all": ("Qwen3Moe", dict(_SIZES, **_HEADS, **_EXPERTS | {"norm_topk_prob": False})),
    "gpt-oss": (
        "GptOss",
        dict(
            _SIZES | {"num_hidden_layers": 4, "intermediate_size": 16}, **_HEADS, head_dim=8, num_local_experts=6,
            num_experts_per_tok=3, sliding_window=7, rope_parameters=_YARN,
        ),
    ),
    "qwen3-next": ("Qwen3Next", dict(_SIZES | {"num_hidden_layers": 4}, **_HEADS, **_EXPERTS, **_DELTA, head_dim=8)),
    "qwen3-next, every second": (
        "Qwen3Next",
        dict(
            _SIZES | {"num_hidden_layers": 4}, **_HEADS, **_EXPERTS, **_DELTA | {"linear_num_value_heads": 2},
            head_dim=16, layer_types=["linear_attention", "full_attention"] * 2,
        ),
    ),
    "gemma 3, all": ("Gemma3Text", dict(_GEMMA, layer_types=_layers(5, 1), tie_word_embeddings=False)),
}  # fmt: skip


def saved(name: str, folder: Path, vocab_size: int, end: int) -> Any:
    """A model of this kind, saved by its own `save_pretrained` in several files. `end` is the id that ends a text."""
    import torch
    import transformers

    torch.manual_seed(0)
    family, settings = MODELS[name]
    ends = dict(bos_token_id=end, eos_token_id=end, pad_token_id=None)
    config = getattr(transformers, f"{family}Config")(vocab_size=vocab_size, **ends, **settings)
    causal = "GPT2LMHeadModel" if family == "GPT2" else f"{family.removesuffix('Text')}ForCausalLM"
    model = getattr(transformers, causal)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(
                0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
            )
    model.save_pretrained(folder, max_shard_size="20KB")
    return model


def logits_of(model: Any, ids: list[int]) -> np.ndarray:
    """The logits (T, V) of a model of transformers."""
    import torch

    with torch.no_grad():
        return model.eval()(torch.tensor([ids])).logits[0].numpy()
