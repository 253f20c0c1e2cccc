"""What vLLM and llama.cpp need of an export, by their published rules. Neither runs here."""

import json
from pathlib import Path

import gguf
import pytest
from safetensors.numpy import load_file

from harness.data.dialogues import PLAIN_TEMPLATE, open_template
from harness.data.tokenizer import get_tokenizer
from harness.hugging_face.export import write_model
from tests.harness.hugging_face.models import LAYOUTS, exported, filled

ARCHITECTURES = {
    "GPT2LMHeadModel": gguf.MODEL_ARCH.GPT2, "GPTNeoXForCausalLM": gguf.MODEL_ARCH.GPTNEOX,
    "LlamaForCausalLM": gguf.MODEL_ARCH.LLAMA, "MistralForCausalLM": gguf.MODEL_ARCH.LLAMA,
    "Qwen2ForCausalLM": gguf.MODEL_ARCH.QWEN2, "Qwen3ForCausalLM": gguf.MODEL_ARCH.QWEN3,
    "Olmo2ForCausalLM": gguf.MODEL_ARCH.OLMO2, "Gemma3ForCausalLM": gguf.MODEL_ARCH.GEMMA3,
}  # fmt: skip
# What llama.cpp's converter reads from config.json, by architecture, and of all others.
FIELDS = {
    "GPT2LMHeadModel": {"n_layer", "n_ctx", "n_embd", "n_head", "layer_norm_epsilon"},
    "GPTNeoXForCausalLM": {
        "num_hidden_layers", "max_position_embeddings", "hidden_size", "intermediate_size", "rotary_pct",
        "num_attention_heads", "use_parallel_residual", "layer_norm_eps",
    },
}  # fmt: skip
OTHERS = {
    "num_hidden_layers", "max_position_embeddings", "hidden_size", "intermediate_size", "num_attention_heads",
    "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_theta", "vocab_size",
}  # fmt: skip
# Tensors that a file may lack: experts, factors of positions that are calculated, and a head that is tied.
OPTIONAL = {"ROPE_FREQS", "ATTN_ROT_EMBD", "FFN_GATE_INP", "FFN_GATE_EXP", "FFN_DOWN_EXP", "FFN_UP_EXP"}


# Of models with experts, its converter joins tensors before it names them.
@pytest.mark.parametrize("name", [name for name, config in LAYOUTS.items() if not config.experts])
def test_tensors_and_fields_are_those_that_llama_cpp_converts(name: str, tmp_path: Path) -> None:
    config = LAYOUTS[name]
    exported(config, tmp_path / "out")
    fields = json.loads((tmp_path / "out" / "config.json").read_text())
    (architecture,) = fields["architectures"]
    assert FIELDS.get(architecture, OTHERS) <= set(fields)
    kind, names = ARCHITECTURES[architecture], set()
    table = gguf.get_tensor_name_map(kind, config.num_layers)
    for tensor in load_file(tmp_path / "out" / "model.safetensors"):
        found = table.get_type_and_name(tensor, try_suffixes=(".weight", ".bias"))
        assert found, tensor
        names.add(found[0].name)
    wanted = {each.name for each in gguf.MODEL_TENSORS[kind]}
    optional = OPTIONAL | ({"OUTPUT"} if config.tied_head else set())
    assert names <= wanted
    assert wanted - names <= optional


def test_a_chat_template_goes_along_and_its_end_ends_a_text(tmp_path: Path) -> None:
    config, tokenizer = LAYOUTS["GPT-2"], get_tokenizer("pocket-2k")
    template = open_template("plain", tokenizer)
    write_model(config, tokenizer, filled(config), tmp_path, template)
    assert (tmp_path / "chat_template.jinja").read_text() == PLAIN_TEMPLATE
    ends = json.loads((tmp_path / "generation_config.json").read_text())["eos_token_id"]
    assert ends == sorted({tokenizer.eot_token, template.end})
