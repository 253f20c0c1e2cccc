"""Reads models that transformers saved: config.json as settings, safetensors as parameters."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.flax import load_file  # NumPy has no bfloat16

from harness.config import HUGGING_FACE
from harness.data.tokenizer import TOKENIZERS, get_tokenizer
from harness.errors import UsageError
from harness.hugging_face.layouts import LAYOUTS, Layout
from harness.hugging_face.parameters import shapes
from harness.model_config import ModelConfig

# Masks and frequencies that old versions saved; they follow from the config.
_BUFFERS = re.compile(r"\.(attn|attention)\.(bias|masked_bias)$|\.rotary_emb\.inv_freq$")
# Fields of any model with one value that is supported, and the value that they have if they are missing.
_FIXED = {"quantization_config": (None, None), "add_cross_attention": (False, False)}


def read_config(folder: Path) -> dict[str, Any]:
    """The settings of the model in a folder, and of its tokenizer if the folder has one.

    Raises UsageError if config.json or the tokenizer says anything that the harness does not have.
    """
    settings = _read_settings(folder)[1]
    if (folder / "tokenizer.json").exists():
        name = get_tokenizer(f"{HUGGING_FACE}{folder}").name
        settings["tokenizer"] = name if name in TOKENIZERS else f"{HUGGING_FACE}{folder}"
    return settings


def read_parameters(folder: Path) -> dict[str, np.ndarray]:
    """The parameters of the model in a folder as float32, by their path in the GPT of these settings.

    Raises UsageError if a tensor is missing, has another shape than config.json says, or belongs to no parameter.
    """
    layout, settings = _read_settings(folder)
    tensors = _read_tensors(folder)
    if not any(name.startswith(layout.prefix) for name in tensors):  # saved without its head
        tensors = {name if name == layout.head else layout.prefix + name: tensors[name] for name in tensors}
    config = ModelConfig(**settings)
    parameters, used = {}, {layout.head} if config.tied_head else set()
    for path, shape in shapes(config).items():
        used.update(layout.names(path, config.num_layers))
        try:
            parameters[path] = layout.read(tensors, path, shape)
        except KeyError as error:
            raise UsageError(f"The tensor {error.args[0]} is missing in {folder}.") from error
        except UsageError as error:
            raise UsageError(f"{folder} does not fit its config.json. {error}") from error
    if unknown := [name for name in tensors if name not in used and not _BUFFERS.search(name)]:
        raise UsageError(f"{folder} has the tensor {unknown[0]}, which the harness's {layout.title} does not have.")
    return parameters


def _read_settings(folder: Path) -> tuple[Layout, dict[str, Any]]:
    file = folder / "config.json"
    fields = _read_json(file)
    layout = next((layout for layout in LAYOUTS if layout.model_type == fields.get("model_type")), None)
    if layout is None:
        known = ", ".join(layout.model_type for layout in LAYOUTS)
        raise UsageError(f"{file}: model_type={fields.get('model_type')} is not supported; only {known} are.")
    for name, (supported, default) in (_FIXED | dict(layout.fixed)).items():
        if (value := fields.get(name, default)) != supported:
            raise UsageError(f"{file}: {name}={value} is not supported; only {supported} is.")
    try:
        settings = {"vocab_size": fields["vocab_size"], **layout.settings(fields)}
        config = ModelConfig(**settings)
    except KeyError as error:
        raise UsageError(f"{file} has no field {error}.") from error
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UsageError(f"{file} is not the config of a model ({type(error).__name__}: {error}).") from error
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error
    for name, supported in layout.conflicts(config).items():
        only = " or ".join(map(str, supported))
        raise UsageError(
            f"{file} asks for {name}={getattr(config, name)}; a {layout.title} model has only {name}={only}."
        )
    return layout, settings


def _read_json(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text("utf-8")))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError) as error:
        raise UsageError(f"{file} is not valid JSON ({type(error).__name__}: {error}).") from error


def _read_tensors(folder: Path) -> Mapping[str, np.ndarray]:
    """All tensors of model.safetensors, or of the files that model.safetensors.index.json lists."""
    file, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if not file.exists() and not index.exists():
        raise UsageError(f"{folder} has no model.safetensors. Other formats, such as pytorch_model.bin, are not read.")
    names = ["model.safetensors"] if file.exists() else sorted(set(_read_json(index).get("weight_map", {}).values()))
    tensors: dict[str, np.ndarray] = {}
    for name in names:
        try:
            tensors |= {key: np.asarray(value, np.float32) for key, value in load_file(folder / name).items()}
        except (OSError, SafetensorError) as error:
            raise UsageError(f"{folder / name} cannot be read: {error}.") from error
    return tensors
