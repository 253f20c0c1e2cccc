"""The layouts: which settings each one has, what they are called in config.json, and how it stores each parameter."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.data.known_fields import unknown_fields
from harness.errors import UsageError
from harness.hugging_face.layout import Fields, Layout, Stored
from harness.model_config import ROPE_SCALINGS, ModelConfig


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


def _rope_settings(fields: Fields, rotated: float) -> dict[str, Any]:
    """The settings of the positions. `rotated` is the fraction of the head width that is rotated unless a field says
    otherwise.

    Raises UsageError for a scaling that the harness does not have.
    """
    rope: Fields = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    kind = "none" if kind == "default" else kind
    if kind not in ROPE_SCALINGS:
        raise UsageError(f"Rope scaling ({kind}) is not supported; only {', '.join(ROPE_SCALINGS)} are.")
    if unknown := unknown_fields(rope, "rope", kind):
        raise UsageError(f"The field {unknown[0]} of a rope scaling is not supported.")
    if kind == "yarn":
        rope = _yarn(rope, fields)
    numbers = [f"{rope[name]:g}" if float(f"{rope[name]:g}") == rope[name] else repr(rope[name])
               for name in ROPE_SCALINGS[kind]]  # fmt: skip
    fields = {"rotary_pct": rotated, "rotary_emb_base": 10_000.0, **fields, **rope}
    fields = {"partial_rotary_factor": fields["rotary_pct"], "rope_theta": fields["rotary_emb_base"], **fields}
    return {
        "positions": "rope",
        "rope_base": float(fields["rope_theta"]),
        "rotary_fraction": float(fields["partial_rotary_factor"]),
        "rope_scaling": ":".join([kind, *numbers]),
    }


def _yarn(rope: Fields, fields: Fields) -> Fields:
    """The numbers of YaRN, with those that are missing as in transformers. Raises UsageError for a variant that the
    harness does not have."""
    if rope.get("truncate", True) is not True:
        raise UsageError("truncate=false of a rope scaling (yarn) is not supported.")
    factor, scale, of_all = rope["factor"], rope.get("mscale"), rope.get("mscale_all_dim")

    def sharper(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0

    return {
        "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": fields["max_position_embeddings"],
        "attention_factor": sharper(scale) / sharper(of_all) if scale and of_all else sharper(1.0),
        **{name: value for name, value in rope.items() if value is not None},
    }  # fmt: skip


def _rope_fields(config: ModelConfig, **others: float) -> Fields:
    """The fields of the positions, as versions 4 and 5 of transformers call them."""
    kind, numbers = config.scaling
    scaling: Fields = {
        "rope_type": "default" if kind == "none" else kind,
        **dict(zip(ROPE_SCALINGS[kind], numbers, strict=True)),
    }
    if "original_max_position_embeddings" in scaling:
        scaling["original_max_position_embeddings"] = int(scaling["original_max_position_embeddings"])
    return {
        "rope_theta": config.rope_base,
        "rope_parameters": {
            **scaling, "rope_theta": config.rope_base, **others,
        },
        **({} if kind == "none" else {"rope_scaling": scaling}),
    }  # fmt: skip


_EMBED = (0, 1)
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
        "embed": Stored(("wte.weight",), _EMBED, 1),
        "pos_embed": Stored(("wpe.weight",), _EMBED, 1),
        **_vectors(ln_f="ln_f"),
    },
    # Its Conv1D stores (in, out), as Flax does, so nothing is transposed.
    block_parameters={
        **_vectors(ln1="ln_1", ln2="ln_2", attn__out="attn.c_proj", ff1="mlp.c_fc", ff2="mlp.c_proj"),
        "attn.qkv.kernel": Stored(("attn.c_attn.weight",), (0, 1, 2, 3), 1),
        "attn.qkv.bias": Stored(("attn.c_attn.bias",), (0, 1, 2)),
        "attn.out.kernel": Stored(("attn.c_proj.weight",), (0, 1, 2), 2),
        "ff1.kernel": Stored(("mlp.c_fc.weight",), (0, 1), 1),
        "ff2.kernel": Stored(("mlp.c_proj.weight",), (0, 1), 1),
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
    parameters={"embed": Stored(("embed_in.weight",), _EMBED, 1), **_vectors(ln_f="final_layer_norm")},
    # Linear layers store (out, in), and the rows of q, k and v alternate from head to head.
    block_parameters={
        **_vectors(
            ln1="input_layernorm", ln2="post_attention_layernorm", attn__out="attention.dense",
            ff1="mlp.dense_h_to_4h", ff2="mlp.dense_4h_to_h",
        ),
        "attn.qkv.kernel": Stored(("attention.query_key_value.weight",), (2, 1, 3, 0), 3),
        "attn.qkv.bias": Stored(("attention.query_key_value.bias",), (1, 0, 2)),
        "attn.out.kernel": Stored(("attention.dense.weight",), (2, 0, 1), 1),
        "ff1.kernel": Stored(("mlp.dense_h_to_4h.weight",), (1, 0), 1),
        "ff2.kernel": Stored(("mlp.dense_4h_to_h.weight",), (1, 0), 1),
    },
    fields=lambda config: {
        "max_position_embeddings": config.context, "hidden_size": config.d_model,
        "num_hidden_layers": config.num_layers, "num_attention_heads": config.num_heads,
        "intermediate_size": config.d_ff, "layer_norm_eps": config.norm_epsilon,
        "hidden_act": _ACTIVATIONS[config.activation][-1],
        "hidden_dropout": config.dropout, "attention_dropout": 0.0, "use_parallel_residual": config.parallel_residual,
        "attention_bias": config.qkv_bias, "rotary_pct": config.rotary_fraction, "rotary_emb_base": config.rope_base,
        **_rope_fields(config, partial_rotary_factor=config.rotary_fraction),
    },
    settings=lambda fields: {
        "context": fields["max_position_embeddings"], "d_model": fields["hidden_size"],
        "num_layers": fields["num_hidden_layers"], "num_heads": fields["num_attention_heads"],
        "d_ff": fields["intermediate_size"], "norm_epsilon": fields.get("layer_norm_eps", 1e-5),
        "norm_kind": "layernorm", "parallel_residual": fields.get("use_parallel_residual", True),
        "attention_bias": "same" if fields.get("attention_bias", True) else "none",
        "activation": _activation({"hidden_act": "gelu", **fields}, "hidden_act", _ACTIVATIONS),
        "tied_head": fields.get("tie_word_embeddings", False), **_rope_settings(fields, 0.25),
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
        "tied_head": fields.get("tie_word_embeddings", False), **_rope_settings(fields, 1.0),
    }  # fmt: skip


def _llama_fields(config: ModelConfig) -> Fields:
    return {
        "max_position_embeddings": config.context, "hidden_size": config.d_model,
        "num_hidden_layers": config.num_layers, "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.kv_heads, "head_dim": config.per_head, "intermediate_size": config.d_ff,
        "rms_norm_eps": config.norm_epsilon, "hidden_act": "silu", "attention_dropout": 0.0,
        "attention_bias": config.qkv_bias, "mlp_bias": config.bias, **_rope_fields(config),
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
    parameters={"embed": Stored(("embed_tokens.weight",), _EMBED, 1), **_vectors(ln_f="norm")},
    block_parameters={
        **_vectors(
            ln1="input_layernorm", ln2="post_attention_layernorm", attn__out="self_attn.o_proj", ff1="mlp.up_proj",
            ff2="mlp.down_proj", gate="mlp.gate_proj",
        ),
        "attn.qkv.kernel": Stored(
            ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"), (1, 2, 0), 2, split=1
        ),
        "attn.qkv.bias": Stored(
            ("self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"), (0, 1)
        ),
        "attn.q.kernel": Stored(("self_attn.q_proj.weight",), (1, 2, 0), 2),
        "attn.q.bias": Stored(("self_attn.q_proj.bias",), (0, 1)),
        "attn.kv.kernel": Stored(("self_attn.k_proj.weight", "self_attn.v_proj.weight"), (1, 2, 0), 2, split=1),
        "attn.kv.bias": Stored(("self_attn.k_proj.bias", "self_attn.v_proj.bias"), (0, 1)),
        "attn.out.kernel": Stored(("self_attn.o_proj.weight",), (2, 0, 1), 1),
        "ff1.kernel": Stored(("mlp.up_proj.weight",), (1, 0), 1),
        "ff2.kernel": Stored(("mlp.down_proj.weight",), (1, 0), 1),
        "gate.kernel": Stored(("mlp.gate_proj.weight",), (1, 0), 1),
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


def _gemma_pattern(fields: Fields) -> dict[str, Any]:
    """The window, which layers have none, and the wavelengths of both kinds. Raises UsageError for other orders of
    layers."""
    L, window = fields["num_hidden_layers"], fields.get("sliding_window") or 0
    every = fields.get("sliding_window_pattern") or fields.get("_sliding_window_pattern") or 6
    types = fields.get("layer_types") or [_KINDS[(i + 1) % every == 0] for i in range(L)]
    full = [i + 1 for i, kind in enumerate(types) if kind == _KINDS[True]]
    if {*types} - {*_KINDS} or (full and full != list(range(full[0], L + 1, full[0]))):
        raise UsageError(
            "layer_types is not supported; every n-th layer must be full_attention, the others sliding_attention."
        )
    by_kind: Fields = fields.get("rope_parameters") or {}
    local, theirs = [Fields(by_kind.get(kind) or {}) for kind in _KINDS]
    if local.get("rope_type", "default") != "default":
        raise UsageError(f"Rope scaling ({local['rope_type']}) of sliding_attention is not supported.")
    scaling = fields.get("rope_scaling") or {}
    of_full = {"rope_theta": fields.get("rope_theta", 1e6), **scaling, **theirs}
    rope = _rope_settings(
        {"max_position_embeddings": fields["max_position_embeddings"], "rope_parameters": of_full}, 1.0
    )
    base = float({"rope_theta": fields.get("rope_local_base_freq", 1e4), **local}["rope_theta"])
    if full and full[0] > 1:
        return {**rope, "window": window, "full_every": full[0], "window_rope_base": base}
    return rope if full else {**rope, "window": window, "rope_base": base, "rope_scaling": "none"}


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
    rope = _rope_fields(config)
    local = {"rope_type": "default", "rope_theta": config.window_rope_base or config.rope_base}
    is_full = [config.is_full(layer) for layer in range(config.num_layers)]
    return {
        **_llama_fields(config),
        **rope,
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": config.per_head,
        "sliding_window": config.window or config.context,
        "layer_types": [_KINDS[full] for full in is_full],
        "rope_local_base_freq": local["rope_theta"],
        "rope_parameters": {_KINDS[True]: rope["rope_parameters"], _KINDS[False]: local},
    }


_KINDS = ("sliding_attention", "full_attention")
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

LAYOUTS = (GPT2, GPT_NEOX, LLAMA, MISTRAL, QWEN2, QWEN3, OLMO2, GEMMA3)
