"""Writes a model and its tokenizer as a folder that transformers loads.

A model that came from such a folder goes back as it came: with its config.json, its tokenizer files, its generation
config and the dtypes of its tensors.
"""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import tiktoken
from flax import nnx

from harness.config import HUGGING_FACE, Config
from harness.data.dialogues import Template, template_text
from harness.data.hub import base_of, model_folder
from harness.data.model_files import read_json, regular
from harness.data.package_tokenizer import begin_of
from harness.data.tokenizer_json import END_OF_TEXT, to_json
from harness.errors import UsageError
from harness.hugging_face.layout import Fields, Layout
from harness.hugging_face.layouts import LAYOUTS
from harness.hugging_face.load import Parameters
from harness.hugging_face.parameters import arrays, save
from harness.model.lora import merge_adapters

DTYPES = {"float32": np.float32, "bfloat16": jnp.bfloat16, "float16": np.float16}
# The files of a tokenizer, and of the chat templates of a model
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model",
)  # fmt: skip
TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json", "additional_chat_templates/*.jinja")
_GENERATION = "generation_config.json"


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
    return layout.of(config.model)


def write_model(
    config: Config, tokenizer: tiktoken.Encoding, model: nnx.Module, folder: Path, template: Template | None = None,
    source: Parameters | None = None, dtype: str = "",
) -> None:  # fmt: skip
    """Writes the model with its adapters merged, its config, its tokenizer and its chat template into an existing
    folder.

    `source` is the model that it was trained from, if that came from a folder: its files are kept, and its dtypes
    unless `dtype` names another one. A tied head is not written, nor what `mtp` adds. Raises UsageError
    if no layout has the settings.
    """
    layout = source.layout if source else find_layout(config)
    if config.lora_rank:
        model = merge_adapters(model)
    parameters = arrays(model, config.vocab_size)
    exported = {path: parameter for path, parameter in parameters.items() if not path.startswith("mtp.")}
    _write_tensors(layout, exported, source, dtype, folder)
    if source:
        _keep_configs(source, dtype, template, folder, tied_head=config.tied_head)
    else:
        ends: Fields = {"bos_token_id": begin[0]} if (begin := begin_of(tokenizer)) else {}
        ends["eos_token_id"] = tokenizer.eot_token
        fields = {
            "model_type": layout.model_type, "architectures": [layout.architecture], "vocab_size": config.vocab_size,
            "tie_word_embeddings": config.tied_head, "dtype": dtype or "float32", **ends, **layout.fields(config.model),
        }  # fmt: skip
        _write_json(folder / "config.json", fields)
        if template:
            ends["eos_token_id"] = sorted({tokenizer.eot_token, template.end})  # either ends an answer
        _write_json(folder / _GENERATION, ends)
    kept = _write_tokenizer(config, tokenizer, source, folder)
    if template and template.text != (kept and template_text(kept)):
        (folder / "chat_template.jinja").write_text(template.text, encoding="utf-8")


def write_again(source: Path, folder: Path, dtype: str = "") -> None:
    """Writes the model in a folder into another one, with its adapters merged, and else as it came.

    `dtype` is by default that of each tensor. Raises UsageError for a model that is not supported.
    """
    parameters = Parameters(source)
    _write_tensors(parameters.layout, parameters, parameters, dtype, folder)
    _keep_configs(parameters, dtype, None, folder, tied_head="head" not in parameters)
    for each in dict.fromkeys((base_of(source), source)):  # adapters may have a tokenizer of their own
        _copy(TOKENIZER_FILES + TEMPLATE_FILES, each, folder)


def _write_tensors(
    layout: Layout, parameters: Mapping[str, np.ndarray], source: Parameters | None, dtype: str, folder: Path
) -> None:
    """Writes parameters by path as tensors of this dtype, by default those of the source. One after another is
    converted, so that one of them is held in float32 at a time."""
    stored = source.dtypes if source and not dtype else {}
    tensors: dict[str, np.ndarray] = {}
    for path in parameters:
        for name, tensor in layout.tensors({path: parameters[path]}).items():
            tensors[name] = tensor.astype(DTYPES[stored.get(name, dtype or "float32")])
    save(tensors, folder / "model.safetensors")


def _keep_configs(source: Parameters, dtype: str, template: Template | None, folder: Path, *, tied_head: bool) -> None:
    """Copies the source's config.json and generation_config.json, with what is another in the export: the dtype, a head
    that is its own, and what ends an answer."""
    model, generation = source.folder / "config.json", source.folder / _GENERATION
    fields = {name: value for name, value in read_json(model).items() if name != "quantization_config"}
    if source.layout.settings(fields)["tied_head"] != tied_head:
        fields["tie_word_embeddings"] = tied_head
    if dtype:
        fields = {name: value for name, value in fields.items() if name != "torch_dtype"} | {"dtype": dtype}
    _write_json(folder / model.name, fields, model)
    ends = read_json(generation) if generation.exists() else {}
    known = ends.get("eos_token_id", fields.get("eos_token_id"))
    known = known if isinstance(known, list) else [known]
    if template and template.end not in known:
        ends["eos_token_id"] = sorted({token for token in known if token is not None} | {template.end})
    if ends:
        _write_json(folder / _GENERATION, ends, generation)


def _write_tokenizer(
    config: Config, tokenizer: tiktoken.Encoding, source: Parameters | None, folder: Path
) -> Path | None:
    """Copies the files of the tokenizer from the folder that it was read from, and returns that. Without one, writes
    them."""
    named = model_folder(config.tokenizer) if config.tokenizer.startswith(HUGGING_FACE) else source and source.folder
    if named and (named / "tokenizer.json").exists():
        _copy(TOKENIZER_FILES + (TEMPLATE_FILES if source else ()), named, folder)
        return named
    names = {"eos_token": END_OF_TEXT}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.context,
        **names,
        "model_input_names": [
            "input_ids",
            "attention_mask",
        ],  # version 4 adds token_type_ids, which Llama does not take
    }
    _write_json(folder / "tokenizer.json", to_json(tokenizer))
    _write_json(folder / "tokenizer_config.json", {**settings, "clean_up_tokenization_spaces": False})
    _write_json(folder / "special_tokens_map.json", names)
    return None


def _copy(patterns: Iterable[str], source: Path, folder: Path) -> None:
    """Copies the files of these names from one folder to another."""
    for pattern in patterns:
        for file in source.glob(pattern):
            copy = folder / file.relative_to(source)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(regular(file), copy)


def _write_json(path: Path, content: dict[str, Any], original: Path | None = None) -> None:
    """Writes a file of JSON; as a copy of the original, if that has the same content."""
    if original and original.exists() and read_json(original) == content:
        shutil.copyfile(original, path)
        return
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
