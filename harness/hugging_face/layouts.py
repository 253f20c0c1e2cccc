"""The layouts: which settings each one has, what they are called in config.json, and how it stores each parameter."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.errors import UsageError
from harness.hugging_face.layout import Fields, Layout, Stored
from harness.hugging_face.rope_fields import rope_fields, rope_settings
from harness.model.experts import GAIN, LIMIT
from harness.model_config import ModelConfig


def _vectors(**names: str) -> dict[str, Stored]:
    """Norms and biases of one axis: `ln1="ln_1"` stores `ln1.scale` as `ln_1.weight` and `ln1.bias` as `ln_1.bias`."""
    return {
        f"{path.replace('__', '.')}.{kind}": Stored((f"{name}.{stored_kind}",))
        for path, name in names.items()
        for kind, stored_kind in (("scale", "weight"), ("bias", "bias"))
    }


# The names in config.json by ours; transformers has several for some.
_ACTIVATIONS = {"gelu": ("gelu_new", "gelu_pytorch_tanh"), "gelu_exact": ("gelu",), "relu": ("relu",)}


def _activation(fields: Fields, name: str, known: Mapping[str, tuple[str, ...]]) -> str:
    for ours, theirs in known.items():
        if fields[name] in theirs:
            return ours
    every = ", ".join(theirs for names in known.values() for theirs in names)
    raise UsageError(f"{name}={fields[name]} is not supported; only {every} are.")


_EMBED = (0, 1)
FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"  # kinds of layers
# The values of the settings by which models differ, where a layout says nothing else
_PLAIN: Mapping[str, tuple[Any, ...]] = {
    "mixer": ("attention",),
    "norm": ("pre",),
    "head_bias": (False,),
    "head_width": (0,),
    "window": (0,),
    "qk_norm": ("none",),
    "parallel_residual": (False,),
    "attention_bias": ("same",),
    "rotary_fraction": (1.0,),
    "rope_scaling": ("none",),
    "full_every": (0,),
    "window_rope_base": (0.0,),
    "scaled_embedding": (False,),
    "sinks": (False,),
    "attention_gate": (False,),
    "experts": (0,),
}
_GPT_BLOCKS: Mapping[str, tuple[Any, ...]] = {
    **_PLAIN, "norm_kind": ("layernorm",), "activation": ("gelu", "gelu_exact", "relu"), "num_kv_heads": (0,),
    "bias": (True,),
}  # fmt: skip


def _any(has: Mapping[str, tuple[Any, ...]], *names: str) -> dict[str, tuple[Any, ...]]:
    """The table without these settings, which may have any value."""
    return {name: values for name, values in has.items() if name not in names}


GPT2 = Layout(
    title="GPT-2",
    model_type="gpt2",
    architecture="GPT2LMHeadModel",
    has={
        "positions": ("learned",), **_GPT_BLOCKS,
    },
    prefix="transformer.",
    block="h.{i}.",
    head="lm_head.weight",
    parameters={
        "embed": Stored(("wte.weight",), _EMBED, (1,)),
        "pos_embed": Stored(("wpe.weight",), _EMBED, (1,)),
        **_vectors(ln_f="ln_f"),
    },
    # Its Conv1D stores (in, out), as Flax does, so nothing is transposed.
    block_parameters={
        **_vectors(ln1="ln_1", ln2="ln_2", attn__out="attn.c_proj", ff1="mlp.c_fc", ff2="mlp.c_proj"),
        "attn.qkv.kernel": Stored(("attn.c_attn.weight",), (0, 1, 2, 3), (1,)),
        "attn.qkv.bias": Stored(("attn.c_attn.bias",), (0, 1, 2)),
        "attn.out.kernel": Stored(("attn.c_proj.weight",), (0, 1, 2), (2,)),
        "ff1.kernel": Stored(("mlp.c_fc.weight",), (0, 1), (1,)),
        "ff2.kernel": Stored(("mlp.c_proj.weight",), (0, 1), (1,)),
    },
    fields=lambda config: {
        "n_positions": config.context, "n_ctx": config.context,  # llama.cpp reads the old name
        "n_embd": config.d_model, "n_layer": config.num_layers, "n_head": config.num_heads, "n_inner": config.d_ff,
        "layer_norm_epsilon": config.norm_epsilon,
        "activation_function": _ACTIVATIONS[config.activation][0],
        "resid_pdrop": config.dropout, "embd_pdrop": config.dropout, "attn_pdrop": 0.0,
    },
    settings=lambda fields: {
        "context": fields["n_positions"], "d_model": fields["n_embd"], "num_layers": fields["n_layer"],
        "num_heads": fields["n_head"], "d_ff": fields.get("n_inner") or 4 * fields["n_embd"],
        "norm_epsilon": fields.get("layer_norm_epsilon", 1e-5), "positions": "learned", "norm_kind": "layernorm",
        "activation": _activation({"activation_function": "gelu_new", **fields}, "activation_function", _ACTIVATIONS),
        "tied_head": fields.get("tie_word_embeddings", True),
    },
    fixed={"scale_attn_weights": (True, True), "scale_attn_by_inverse_layer_idx": (False, False)},
)  # fmt: skip

GPT_NEOX = Layout(
    title="GPT-NeoX",
    model_type="gpt_neox",
    architecture="GPTNeoXForCausalLM",
    has={
        **_any(_GPT_BLOCKS, "parallel_residual", "rotary_fraction", "rope_scaling"), "positions": ("rope",),
        "attention_bias": ("same", "none"),
    },
    prefix="gpt_neox.",
    block="layers.{i}.",
    head="embed_out.weight",
    parameters={"embed": Stored(("embed_in.weight",), _EMBED, (1,)), **_vectors(ln_f="final_layer_norm")},
    # Linear layers store (out, in), and the rows of q, k and v alternate from head to head.
    block_parameters={
        **_vectors(
            ln1="input_layernorm", ln2="post_attention_layernorm", attn__out="attention.dense",
            ff1="mlp.dense_h_to_4h", ff2="mlp.dense_4h_to_h",
        ),
        "attn.qkv.kernel": Stored(("attention.query_key_value.weight",), (2, 1, 3, 0), (3,)),
        "attn.qkv.bias": Stored(("attention.query_key_value.bias",), (1, 0, 2)),
        "attn.out.kernel": Stored(("attention.dense.weight",), (2, 0, 1), (1,)),
        "ff1.kernel": Stored(("mlp.dense_h_to_4h.weight",), (1, 0), (1,)),
        "ff2.kernel": Stored(("mlp.dense_4h_to_h.weight",), (1, 0), (1,)),
    },
    fields=lambda config: {
        "max_position_embeddings": config.context, "hidden_size": config.d_model,
        "num_hidden_layers": config.num_layers, "num_attention_heads": config.num_heads,
        "intermediate_size": config.d_ff, "layer_norm_eps": config.norm_epsilon,
        "hidden_act": _ACTIVATIONS[config.activation][-1],
        "hidden_dropout": config.dropout, "attention_dropout": 0.0, "use_parallel_residual": config.parallel_residual,
        "attention_bias": config.qkv_bias, "rotary_pct": config.rotary_fraction, "rotary_emb_base": config.rope_base,
        **rope_fields(config, partial_rotary_factor=config.rotary_fraction),
    },
    settings=lambda fields: {
        "context": fields["max_position_embeddings"], "d_model": fields["hidden_size"],
        "num_layers": fields["num_hidden_layers"], "num_heads": fields["num_attention_heads"],
        "d_ff": fields["intermediate_size"], "norm_epsilon": fields.get("layer_norm_eps", 1e-5),
        "norm_kind": "layernorm", "parallel_residual": fields.get("use_parallel_residual", True),
        "attention_bias": "same" if fields.get("attention_bias", True) else "none",
        "activation": _activation({"hidden_act": "gelu", **fields}, "hidden_act", _ACTIVATIONS),
        "tied_head": fields.get("tie_word_embeddings", False), **rope_settings(fields, 0.25),
    },
)  # fmt: skip


def _llama_settings(fields: Fields) -> dict[str, Any]:
    """The settings that all models of Llama's kind share. Raises UsageError for layers of several kinds."""
    D, H = fields["hidden_size"], fields["num_attention_heads"]
    G, K = fields.get("num_key_value_heads") or H, fields.get("head_dim") or D // H
    attention, feed_forward = fields.get("attention_bias", False), fields.get("mlp_bias", False)
    if others := {*(fields.get("layer_types") or ())} - {"full_attention"}:
        raise UsageError(f"Layers of the type {min(others)} are not supported; all must be of the type full_attention.")
    return {
        "context": fields["max_position_embeddings"], "d_model": D, "num_layers": fields["num_hidden_layers"],
        "num_heads": H, "num_kv_heads": 0 if G == H else G, "head_width": 0 if K == D / H else K,
        "d_ff": fields["intermediate_size"], "norm_epsilon": fields.get("rms_norm_eps", 1e-6), "norm_kind": "rmsnorm",
        "bias": feed_forward,
        "attention_bias": "same" if attention == feed_forward else "all" if attention else "none",
        "activation": _activation({"hidden_act": "silu", **fields}, "hidden_act", {"swiglu": ("silu", "swish")}),
        "tied_head": fields.get("tie_word_embeddings", False), **rope_settings(fields, 1.0),
    }  # fmt: skip


def _llama_fields(config: ModelConfig) -> Fields:
    return {
        "max_position_embeddings": config.context, "hidden_size": config.d_model,
        "num_hidden_layers": config.num_layers, "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.kv_heads, "head_dim": config.per_head, "intermediate_size": config.d_ff,
        "rms_norm_eps": config.norm_epsilon, "hidden_act": "silu", "attention_dropout": 0.0,
        "attention_bias": config.qkv_bias, "mlp_bias": config.bias, **rope_fields(config),
    }  # fmt: skip


LLAMA = Layout(
    title="Llama",
    model_type="llama",
    architecture="LlamaForCausalLM",
    has={
        **_any(_PLAIN, "head_width", "rope_scaling"), "positions": ("rope",),
        "norm_kind": ("rmsnorm",), "activation": ("swiglu",), "attention_bias": ("same", "none", "all"),
    },
    prefix="model.",
    block="layers.{i}.",
    head="lm_head.weight",
    parameters={"embed": Stored(("embed_tokens.weight",), _EMBED, (1,)), **_vectors(ln_f="norm")},
    block_parameters={
        **_vectors(
            ln1="input_layernorm", ln2="post_attention_layernorm", attn__out="self_attn.o_proj", ff1="mlp.up_proj",
            ff2="mlp.down_proj", gate="mlp.gate_proj",
        ),
        "attn.qkv.kernel": Stored(
            ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"), (1, 2, 0), (2,), split=1
        ),
        "attn.qkv.bias": Stored(
            ("self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"), (0, 1)
        ),
        "attn.q.kernel": Stored(("self_attn.q_proj.weight",), (1, 2, 0), (2,)),
        "attn.q.bias": Stored(("self_attn.q_proj.bias",), (0, 1)),
        "attn.kv.kernel": Stored(("self_attn.k_proj.weight", "self_attn.v_proj.weight"), (1, 2, 0), (2,), split=1),
        "attn.kv.bias": Stored(("self_attn.k_proj.bias", "self_attn.v_proj.bias"), (0, 1)),
        "attn.out.kernel": Stored(("self_attn.o_proj.weight",), (2, 0, 1), (1,)),
        "ff1.kernel": Stored(("mlp.up_proj.weight",), (1, 0), (1,)),
        "ff2.kernel": Stored(("mlp.down_proj.weight",), (1, 0), (1,)),
        "gate.kernel": Stored(("mlp.gate_proj.weight",), (1, 0), (1,)),
    },
    fields=_llama_fields,
    settings=_llama_settings,
    fixed={"sliding_window": (None, None)},
)  # fmt: skip

_NO_BIAS = {"bias": (False,)}
MISTRAL = replace(
    LLAMA,
    title="Mistral",
    model_type="mistral",
    architecture="MistralForCausalLM",
    has={**_any(LLAMA.has, "window"), **_NO_BIAS, "attention_bias": ("same",)},
    fields=lambda config: {**_llama_fields(config), "sliding_window": config.window or None},
    settings=lambda fields: {**_llama_settings(fields), "window": fields.get("sliding_window", 4096) or 0},
    fixed={},
)
QWEN2 = replace(
    LLAMA,
    title="Qwen 2",
    model_type="qwen2",
    architecture="Qwen2ForCausalLM",
    has={**LLAMA.has, **_NO_BIAS, "attention_bias": ("qkv",), "head_width": (0,)},
    fields=lambda config: {**_llama_fields(config), "use_sliding_window": False},
    settings=lambda fields: {**_llama_settings(fields), "attention_bias": "qkv"},
    fixed={"use_sliding_window": (False, False)},
)
QWEN3 = replace(
    LLAMA,
    title="Qwen 3",
    model_type="qwen3",
    architecture="Qwen3ForCausalLM",
    has={**LLAMA.has, **_NO_BIAS, "attention_bias": ("same", "all"), "qk_norm": ("head",)},
    block_parameters={
        **LLAMA.block_parameters,
        **_vectors(attn__q_norm="self_attn.q_norm", attn__k_norm="self_attn.k_norm"),
    },
    fields=lambda config: {**_llama_fields(config), "use_sliding_window": False},
    settings=lambda fields: {**_llama_settings({"head_dim": 128, **fields}), "qk_norm": "head"},
    fixed={"use_sliding_window": (False, False)},
)
OLMO2 = replace(
    LLAMA,
    title="OLMo 2",
    model_type="olmo2",
    architecture="Olmo2ForCausalLM",
    has={
        **LLAMA.has, **_NO_BIAS, "attention_bias": ("same", "all"), "norm": ("branch",), "qk_norm": ("all",),
        "head_width": (0,),
    },
    block_parameters={
        **QWEN3.block_parameters, **_vectors(ln1="post_attention_layernorm", ln2="post_feedforward_layernorm"),
    },
    settings=lambda fields: {
        **_llama_settings({"rms_norm_eps": 1e-5, **fields}), "norm": "branch", "qk_norm": "all",
    },
    fixed={},
)  # fmt: skip


def _full_every(types: list[str], layers: int, other: str) -> int:
    """Every how many layers one is of the type full_attention, where the others are of another one; 0 if none is.
    Raises UsageError for other orders of layers."""
    full = [i + 1 for i, kind in enumerate(types) if kind == FULL]
    if {*types} - {FULL, other} or (full and full != list(range(full[0], layers + 1, full[0]))):
        raise UsageError(f"layer_types is not supported; every n-th layer must be {FULL}, the others {other}.")
    return full[0] if full else 0


def _types(config: ModelConfig, every: int, other: str) -> list[str]:
    """The layer_types of a model: every so many layers, one is of the type full_attention."""
    return [FULL if every and (i + 1) % every == 0 else other for i in range(config.num_layers)]


def _windows(fields: Fields, every: Any) -> dict[str, Any]:
    """The window, and which layers have none. `every` is the pattern that an absent layer_types stands for."""
    L, window = fields["num_hidden_layers"], fields.get("sliding_window") or 0
    types = fields.get("layer_types") or [FULL if (i + 1) % every == 0 else SLIDING for i in range(L)]
    every = _full_every(types, L, SLIDING)
    return {} if every == 1 else {"window": window, "full_every": every}


def _gemma_pattern(fields: Fields) -> dict[str, Any]:
    """The window, which layers have none, and the wavelengths of both kinds."""
    windows = _windows(fields, fields.get("sliding_window_pattern") or fields.get("_sliding_window_pattern") or 6)
    by_kind: Fields = fields.get("rope_parameters") or {}
    local, theirs = [Fields(by_kind.get(kind) or {}) for kind in (SLIDING, FULL)]
    if local.get("rope_type", "default") != "default":
        raise UsageError(f"Rope scaling ({local['rope_type']}) of sliding_attention is not supported.")
    scaling = fields.get("rope_scaling") or {}
    of_full = {"rope_theta": fields.get("rope_theta", 1e6), **scaling, **theirs}
    rope = rope_settings(
        {"max_position_embeddings": fields["max_position_embeddings"], "rope_parameters": of_full}, 1.0
    )
    base = float({"rope_theta": fields.get("rope_local_base_freq", 1e4), **local}["rope_theta"])
    if windows.get("full_every"):
        return {**rope, **windows, "window_rope_base": base}
    return {**rope, **windows, "rope_base": base, "rope_scaling": "none"} if windows else rope


def _gemma_settings(fields: Fields) -> dict[str, Any]:
    fields = {"head_dim": 256, "query_pre_attn_scalar": 256, "tie_word_embeddings": True, **fields}
    if fields["query_pre_attn_scalar"] != fields["head_dim"]:
        raise UsageError("query_pre_attn_scalar is not supported unless it is head_dim.")
    own = ("layer_types", "rope_parameters", "rope_scaling", "hidden_act")
    return {
        **_llama_settings({name: value for name, value in fields.items() if name not in own}), **_gemma_pattern(fields),
        "norm": "both", "norm_kind": "rmsnorm_1", "qk_norm": "head", "scaled_embedding": True,
        "activation": _activation(
            {"hidden_activation": "gelu_pytorch_tanh", **fields}, "hidden_activation", {"geglu": ("gelu_pytorch_tanh",)}
        ),
    }  # fmt: skip


def _gemma_fields(config: ModelConfig) -> Fields:
    rope = rope_fields(config)
    local = {"rope_type": "default", "rope_theta": config.window_rope_base or config.rope_base}
    every = config.full_every if config.window else 1
    return {
        **_llama_fields(config),
        **rope,
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": config.per_head,
        "sliding_window": config.window or config.context,
        "layer_types": _types(config, every, SLIDING),
        "rope_local_base_freq": local["rope_theta"],
        "rope_parameters": {FULL: rope["rope_parameters"], SLIDING: local},
    }


GEMMA3 = replace(
    LLAMA,
    title="Gemma 3",
    model_type="gemma3_text",
    architecture="Gemma3ForCausalLM",
    has={
        **_any(LLAMA.has, "window", "full_every", "window_rope_base"), **_NO_BIAS, "attention_bias": ("same", "all"),
        "norm": ("both",), "norm_kind": ("rmsnorm_1",), "qk_norm": ("head",), "activation": ("geglu",),
        "scaled_embedding": (True,),
    },
    block_parameters={
        **QWEN3.block_parameters,
        **_vectors(
            ln1_out="post_attention_layernorm", ln2="pre_feedforward_layernorm", ln2_out="post_feedforward_layernorm"
        ),
    },
    fields=_gemma_fields,
    settings=_gemma_settings,
    fixed={
        "final_logit_softcapping": (None, None), "attn_logit_softcapping": (None, None),
        "use_bidirectional_attention": (False, False),
    },
)  # fmt: skip


def _experts(fields: Fields, *, is_normed: bool) -> dict[str, Any]:
    """The settings of experts, which all layers must have. `is_normed` is what an absent norm_topk_prob stands for."""
    if fields.get("mlp_only_layers") or fields.get("decoder_sparse_step", 1) != 1:
        raise UsageError("mlp_only_layers and decoder_sparse_step are not supported; all layers must have experts.")
    number = fields.get("num_experts") or fields.get("num_local_experts")
    if not number:
        raise UsageError("num_experts is not supported unless it is at least 1.")
    return {
        "experts": number, "experts_per_token": fields["num_experts_per_tok"], "d_ff": fields["moe_intermediate_size"],
        "router": "softmax" if fields.get("norm_topk_prob", is_normed) else "softmax_all",
    }  # fmt: skip


def _expert_fields(config: ModelConfig, number: str) -> Fields:
    """The fields of experts, of which `number` is the name of their number."""
    return {
        number: config.experts, "num_experts_per_tok": config.experts_per_token,
        "moe_intermediate_size": config.d_ff, "norm_topk_prob": config.router == "softmax", "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }  # fmt: skip


def _in_experts(**stored: Stored) -> dict[str, Stored]:
    """The parameters of the experts of a block."""
    return {f"feed_forward_override.{path.replace('__', '.')}": each for path, each in stored.items()}


# Each expert is stored on its own.
_OF_QWEN = _in_experts(
    router__kernel=Stored(("mlp.gate.weight",), (1, 0), (1,)),
    gate_up__kernel=Stored(
        ("mlp.experts.{e}.gate_proj.weight", "mlp.experts.{e}.up_proj.weight"), (1, 0), (1,), split=1
    ),
    down__kernel=Stored(("mlp.experts.{e}.down_proj.weight",), (1, 0), (1,)),
)
_WITH_EXPERTS: Mapping[str, tuple[Any, ...]] = {
    "d_shared": (0,), "shared_gate": (False,), "router": ("softmax", "softmax_all"), "clamped_swiglu": (False,),
}  # fmt: skip
QWEN3_MOE = replace(
    QWEN3,
    title="Qwen 3 with experts",
    model_type="qwen3_moe",
    architecture="Qwen3MoeForCausalLM",
    has={**_any(QWEN3.has, "experts"), **_WITH_EXPERTS},
    block_parameters={**QWEN3.block_parameters, **_OF_QWEN},
    fields=lambda config: {**QWEN3.fields(config), **_expert_fields(config, "num_experts")},
    settings=lambda fields: {
        **_llama_settings(fields), "qk_norm": "head", **_experts(fields, is_normed=False),
    },
)  # fmt: skip


def _gpt_oss_settings(fields: Fields) -> dict[str, Any]:
    fields = {
        "head_dim": 64, "attention_bias": True, "mlp_bias": True, "rms_norm_eps": 1e-5, "rope_theta": 150_000.0,
        "sliding_window": 128, "moe_intermediate_size": fields["intermediate_size"], **fields,
    }  # fmt: skip
    if not (fields.get("rope_parameters") or fields.get("rope_scaling")):
        yarn = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False}
        fields["rope_scaling"] = yarn
    return {
        **_llama_settings({name: value for name, value in fields.items() if name != "layer_types"}),
        **_experts(fields, is_normed=True), **_windows(fields, 2), "sinks": True, "clamped_swiglu": True,
    }  # fmt: skip


def _gpt_oss_fields(config: ModelConfig) -> Fields:
    every = config.full_every if config.window else 1
    own = ("mlp_bias", "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers")
    every_field = {**_llama_fields(config), **_expert_fields(config, "num_local_experts")}
    return {
        **{name: value for name, value in every_field.items() if name not in own},
        "sliding_window": config.window or config.context, "layer_types": _types(config, every, SLIDING),
        "swiglu_alpha": GAIN, "swiglu_limit": LIMIT,
    }  # fmt: skip


GPT_OSS = replace(
    LLAMA,
    title="gpt-oss",
    model_type="gpt_oss",
    architecture="GptOssForCausalLM",
    has={
        **_any(LLAMA.has, "window", "full_every", "experts"), **_WITH_EXPERTS, "bias": (True,),
        "attention_bias": ("same", "none"), "sinks": (True,), "router": ("softmax",), "clamped_swiglu": (True,),
    },
    # All experts are stored together, and the columns of the gate and of the other half alternate.
    block_parameters={
        **LLAMA.block_parameters,
        "attn.sinks": Stored(("self_attn.sinks",)),
        **_in_experts(
            router__kernel=Stored(("mlp.router.weight",), (1, 0), (1,)),
            router__bias=Stored(("mlp.router.bias",)),
            gate_up__kernel=Stored(("mlp.experts.gate_up_proj",), (0, 1, 3, 2), (1, 2)),
            gate_up__bias=Stored(("mlp.experts.gate_up_proj_bias",), (0, 2, 1), (1,)),
            down__kernel=Stored(("mlp.experts.down_proj",), (0, 1, 2), (1, 2)),
            down__bias=Stored(("mlp.experts.down_proj_bias",), (0, 1), (1,)),
        ),
    },
    fields=_gpt_oss_fields,
    settings=_gpt_oss_settings,
    fixed={"swiglu_alpha": (GAIN, GAIN), "swiglu_limit": (LIMIT, LIMIT)},
)  # fmt: skip


def _qwen3_next_settings(fields: Fields) -> dict[str, Any]:
    fields = {"head_dim": 256, **fields}
    L, every = fields["num_hidden_layers"], fields.get("full_attention_interval") or 4
    types = fields.get("layer_types") or [FULL if (i + 1) % every == 0 else LINEAR for i in range(L)]
    return {
        **_llama_settings({name: value for name, value in fields.items() if name != "layer_types"}),
        **rope_settings(fields, 0.25), **_experts(fields, is_normed=True),
        "num_kv_heads": fields["num_key_value_heads"], "mixer": "gated_delta",
        "attention_every": _full_every(types, L, LINEAR), "norm_kind": "rmsnorm_1", "qk_norm": "head",
        "attention_gate": True, "d_shared": fields["shared_expert_intermediate_size"], "shared_gate": True,
        **{ours: fields.get(theirs, default) for ours, (theirs, default) in _DELTA.items()},
    }  # fmt: skip


def _qwen3_next_fields(config: ModelConfig) -> Fields:
    own = {**_llama_fields(config), **_expert_fields(config, "num_experts")}
    sizes = (*config.delta_heads, *config.delta_widths, config.conv_width)
    return {
        **{name: value for name, value in own.items() if name != "mlp_bias"},
        **rope_fields(config, partial_rotary_factor=config.rotary_fraction),
        "partial_rotary_factor": config.rotary_fraction,
        "layer_types": _types(config, config.attention_every, LINEAR),
        "shared_expert_intermediate_size": config.d_shared,
        **{theirs: size for (theirs, _), size in zip(_DELTA.values(), sizes, strict=True)},
    }


# The sizes of its linear attention, and the values that they have if they are missing
_DELTA = {
    "key_heads": ("linear_num_key_heads", 16), "value_heads": ("linear_num_value_heads", 32),
    "key_width": ("linear_key_head_dim", 128), "value_width": ("linear_value_head_dim", 128),
    "conv_width": ("linear_conv_kernel_dim", 4),
}  # fmt: skip
QWEN3_NEXT = replace(
    QWEN3,
    title="Qwen3-Next",
    model_type="qwen3_next",
    architecture="Qwen3NextForCausalLM",
    has={
        **_any(QWEN3.has, "experts", "rotary_fraction"), **_any(_WITH_EXPERTS, "d_shared"),
        "mixer": ("gated_delta",), "norm_kind": ("rmsnorm_1",), "attention_gate": (True,), "shared_gate": (True,),
    },
    block_parameters={
        **QWEN3.block_parameters,
        **_OF_QWEN,
        **_in_experts(
            shared_gate_up__kernel=Stored(
                ("mlp.shared_expert.gate_proj.weight", "mlp.shared_expert.up_proj.weight"), (1, 0), (1,), split=1
            ),
            shared_down__kernel=Stored(("mlp.shared_expert.down_proj.weight",), (1, 0), (1,)),
            shared_gate__kernel=Stored(("mlp.shared_expert_gate.weight",), (1, 0), (1,)),
        ),
        "attn.qkvz.kernel": Stored(("linear_attn.in_proj_qkvz.weight",), (1, 2, 0), (2,)),
        "attn.ba.kernel": Stored(("linear_attn.in_proj_ba.weight",), (1, 2, 0), (2,)),
        "attn.conv": Stored(("linear_attn.conv1d.weight",), (0, 1), (1, 1)),
        "attn.dt_bias": Stored(("linear_attn.dt_bias",)),
        "attn.a_log": Stored(("linear_attn.A_log",)),
        "attn.norm.scale": Stored(("linear_attn.norm.weight",)),
        "attn.out_proj.kernel": Stored(("linear_attn.out_proj.weight",), (1, 0), (1,)),
    },
    fields=_qwen3_next_fields,
    settings=_qwen3_next_settings,
    fixed={},
)  # fmt: skip

LAYOUTS = (GPT2, GPT_NEOX, LLAMA, MISTRAL, QWEN2, QWEN3, OLMO2, GEMMA3, QWEN3_MOE, GPT_OSS, QWEN3_NEXT)
