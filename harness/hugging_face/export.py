"""Writes a model and its tokenizer as a folder that transformers loads."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import tiktoken
from flax import nnx
from safetensors.numpy import save_file

from harness.config import Config
from harness.data.dialogues import Template
from harness.data.hub import ADAPTERS, base_of
from harness.data.model_files import read_json, regular
from harness.data.package_tokenizer import PackageTokenizer, content_of
from harness.data.tokenizer_json import END_OF_TEXT, to_json
from harness.errors import UsageError
from harness.hugging_face.layout import Layout
from harness.hugging_face.layouts import LAYOUTS
from harness.hugging_face.load import INDEX, Parameters
from harness.hugging_face.parameters import arrays
from harness.model.lora import merge_adapters

# Of the files of a model: those of its tokenizer and its settings, without those that are written again.
KEPT = (".json", ".jinja", ".model", ".txt")
NOT_KEPT = ("config.json", ADAPTERS, INDEX)


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
    config: Config,
    tokenizer: tiktoken.Encoding,
    model: nnx.Module,
    folder: Path,
    template: Template | None = None,
    dtype: str = "float32",
) -> None:
    """Writes the model with its adapters merged, its config, its tokenizer and its chat template into an existing
    folder, with numbers of this dtype.

    A tied head is not written. Raises UsageError if no layout has the settings.
    """
    layout = find_layout(config)
    ends: dict[str, Any] = {"bos_token_id": tokenizer.eot_token, "eos_token_id": tokenizer.eot_token}
    fields = {
        "model_type": layout.model_type, "architectures": [layout.architecture], "vocab_size": config.vocab_size,
        "tie_word_embeddings": config.tied_head, "dtype": dtype, **ends, **layout.fields(config.model),
    }  # fmt: skip
    if config.lora_rank:
        model = merge_adapters(model)
    _write_tensors(layout, arrays(model, config.vocab_size), dtype, folder)
    _write_json(folder / "config.json", fields)
    if template:
        ends["eos_token_id"] = sorted({tokenizer.eot_token, template.end})  # either ends an answer
        (folder / "chat_template.jinja").write_text(template.text, encoding="utf-8")
    _write_json(folder / "generation_config.json", ends)
    _write_tokenizer(tokenizer, config.context, folder)


def write_again(source: Path, folder: Path, dtype: str | None = None) -> None:
    """Writes the model in a folder into another one, with its adapters merged and all its other files as they are.

    `dtype` is by default that of the model. Raises UsageError for a model that is not supported.
    """
    parameters, base = Parameters(source), base_of(source)
    fields = read_json(base / "config.json")
    dtype = dtype or str(fields.get("dtype") or fields.get("torch_dtype") or "float32")
    for file in (file for each in dict.fromkeys((base, source)) for file in sorted(each.iterdir())):
        if file.suffix in KEPT and file.name not in NOT_KEPT:
            (folder / file.name).write_bytes(regular(file).read_bytes())
    _write_json(folder / "config.json", {**fields, "dtype": dtype, "tie_word_embeddings": "head" not in parameters})
    _write_tensors(parameters.layout, parameters, dtype, folder)


def _write_tensors(layout: Layout, parameters: Mapping[str, np.ndarray], dtype: str, folder: Path) -> None:
    """Writes parameters by path as tensors, one after another, so that one of them is held in float32 at a time."""
    tensors: dict[str, np.ndarray] = {}
    for path in parameters:
        named = layout.tensors({path: parameters[path]})
        tensors |= {name: array.astype(jnp.dtype(dtype)) for name, array in named.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # safetensors makes it readable by its owner only


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
