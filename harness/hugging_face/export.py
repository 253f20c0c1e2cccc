"""Writes a model and its tokenizer as a folder that transformers loads."""

import json
from pathlib import Path
from typing import Any

import tiktoken
from flax import nnx
from safetensors.numpy import save_file

from harness.config import Config
from harness.data.dialogues import Template
from harness.data.package_tokenizer import PackageTokenizer, content_of
from harness.data.tokenizer_json import END_OF_TEXT, to_json
from harness.errors import UsageError
from harness.hugging_face.layout import Layout
from harness.hugging_face.layouts import LAYOUTS
from harness.hugging_face.parameters import arrays
from harness.model.lora import merge_adapters


def find_layout(config: Config) -> Layout:
    """The layout that has all settings of the config. Raises UsageError, naming the settings, if none has them."""
    if config.objective != "next_token":
        raise UsageError(f"objective={config.objective} cannot be exported; transformers has no such model.")
    if not config.num_layers:
        raise UsageError("num_layers=0 cannot be exported; transformers has no such model.")
    layout = min(LAYOUTS, key=lambda layout: len(layout.conflicts(config.model)))
    if conflicts := layout.conflicts(config.model):
        has = ", ".join(f"{name}={getattr(config, name)}" for name in conflicts)
        needs = ", ".join(f"{name}={' or '.join(map(str, values))}" for name, values in conflicts.items())
        raise UsageError(f"{has} cannot be exported. The nearest layout, {layout.title}, has {needs}.")
    return layout


def write_model(
    config: Config, tokenizer: tiktoken.Encoding, model: nnx.Module, folder: Path, template: Template | None = None
) -> None:
    """Writes the model with its adapters merged, its config, its tokenizer and its chat template into an existing
    folder.

    A tied head is not written. Raises UsageError if no layout has the settings.
    """
    layout = find_layout(config)
    ends: dict[str, Any] = {"bos_token_id": tokenizer.eot_token, "eos_token_id": tokenizer.eot_token}
    fields = {
        "model_type": layout.model_type, "architectures": [layout.architecture], "vocab_size": config.vocab_size,
        "tie_word_embeddings": config.tied_head, "dtype": "float32", **ends, **layout.fields(config.model),
    }  # fmt: skip
    if config.lora_rank:
        model = merge_adapters(model)
    save_file(layout.tensors(arrays(model, config.vocab_size)), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # safetensors makes it readable by its owner only
    _write_json(folder / "config.json", fields)
    if template:
        ends["eos_token_id"] = sorted({tokenizer.eot_token, template.end})  # either ends an answer
        (folder / "chat_template.jinja").write_text(template.text, encoding="utf-8")
    _write_json(folder / "generation_config.json", ends)
    _write_tokenizer(tokenizer, config.context, folder)


def _write_tokenizer(tokenizer: tiktoken.Encoding, context: int, folder: Path) -> None:
    content = content_of(tokenizer)  # a file that was read by the package is written as it was
    end = tokenizer.end if isinstance(tokenizer, PackageTokenizer) else END_OF_TEXT
    names = {"bos_token": end, "eos_token": end}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        **names,
        "model_input_names": [
            "input_ids",
            "attention_mask",
        ],  # version 4 adds token_type_ids, which Llama does not take
    }
    _write_json(folder / "tokenizer.json", content or to_json(tokenizer))
    _write_json(folder / "tokenizer_config.json", {**settings, "clean_up_tokenization_spaces": False})
    _write_json(folder / "special_tokens_map.json", names)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
