"""Reads models that transformers saved: config.json as settings, safetensors as parameters."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from harness.config import HUGGING_FACE
from harness.data.tokenizer import TOKENIZERS, get_tokenizer
from harness.errors import UsageError
from harness.hugging_face.layout import Layout
from harness.hugging_face.layouts import LAYOUTS
from harness.hugging_face.parameters import shapes, with_rows
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


class Parameters(Mapping[str, np.ndarray]):
    """The parameters of the model in a folder as float32, by their path in the GPT of these settings.

    Each is read when it is asked for, so that the host need not hold all of them. `rows` is the number of rows per token, if
    that is more than the vocabulary has. Raises UsageError if a tensor is missing, has another shape than config.json says, or
    belongs to no parameter.
    """

    def __init__(self, folder: Path, rows: int = 0):
        self._folder, self._rows = folder, rows
        self._layout, settings = _read_settings(folder)
        config = ModelConfig(**settings)
        self._shapes, self._files = shapes(config), _files(folder, self._layout)
        self._names = {path: self._layout.names(path, config.num_layers) for path in self._shapes}
        used = {name for names in self._names.values() for name in names}
        if missing := used - self._files.keys():
            raise UsageError(f"The tensor {min(missing)} is missing in {folder}.")
        used |= {self._layout.head} if config.tied_head else set()
        if unknown := [name for name in self._files if name not in used and not _BUFFERS.search(name)]:
            raise UsageError(
                f"{folder} has the tensor {unknown[0]}, which the harness's {self._layout.title} does not have."
            )

    def tensors(self) -> dict[str, np.ndarray]:
        """All tensors of the folder by their full names, as float32, of files as they are: with buffers and a tied head."""
        with contextlib.ExitStack() as open_files:
            return dict(_Tensors(self._files, open_files))

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def __getitem__(self, path: str) -> np.ndarray:
        if path not in self._shapes:
            raise KeyError(path)
        with contextlib.ExitStack() as open_files:  # closed at once: their pages count as memory
            try:
                parameter = self._layout.read(_Tensors(self._files, open_files), path, self._shapes[path])
            except UsageError as error:
                raise UsageError(f"{self._folder} does not fit its config.json. {error}") from error
        return with_rows(path, parameter, self._rows)


class _Tensors(Mapping[str, np.ndarray]):
    """The tensors of a folder by full name, in float32. Each is read when it is asked for; their files stay open."""

    def __init__(self, files: Mapping[str, tuple[Path, str]], open_files: contextlib.ExitStack):
        self._files, self._open_files, self._opened = files, open_files, dict[Path, Any]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, name: str) -> np.ndarray:
        file, stored = self._files[name]
        if file not in self._opened:
            self._opened[file] = self._open_files.enter_context(_opened(file))
        return np.asarray(self._opened[file].get_tensor(stored), np.float32)


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


def _files(folder: Path, layout: Layout) -> dict[str, tuple[Path, str]]:
    """The file of each tensor and its name there, by its full name: model.safetensors, or those that its index lists."""
    file, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if not file.exists() and not index.exists():
        raise UsageError(f"{folder} has no model.safetensors. Other formats, such as pytorch_model.bin, are not read.")
    names = ["model.safetensors"] if file.exists() else sorted(set(_read_json(index).get("weight_map", {}).values()))
    found: dict[str, tuple[Path, str]] = {}
    for name in names:
        with _opened(folder / name) as opened:
            found |= {stored: (folder / name, stored) for stored in opened.keys()}  # noqa: SIM118
    if not any(name.startswith(layout.prefix) for name in found):  # saved without its head
        found = {name if name == layout.head else layout.prefix + name: place for name, place in found.items()}
    return found


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        with safe_open(file, framework="flax") as opened:  # NumPy has no bfloat16
            yield opened
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{file} cannot be read: {error}.") from error
